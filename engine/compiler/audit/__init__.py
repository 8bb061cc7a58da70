"""The static audit: proofs, for all threads and shapes, that no check of checked mode can fail and no threads race."""
