"""LayerNormalization and RMSNormalization."""
