"""What a model may call: functions with a schema, run side by side and within bounds."""
