"""OpenTelemetry traces of calls: names, spans, exporters."""
