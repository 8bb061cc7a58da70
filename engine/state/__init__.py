"""The one struct-of-arrays state: the field table and the Model, State, Control and Contacts made from it."""
