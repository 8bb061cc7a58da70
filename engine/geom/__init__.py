"""Geometry without time and forces: shapes, mass properties, hulls, broad and narrow phase."""
