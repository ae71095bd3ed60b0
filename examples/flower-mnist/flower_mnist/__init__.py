"""flower-mnist."""
