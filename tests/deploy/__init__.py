"""The chart for Kubernetes."""
