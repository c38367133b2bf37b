"""Rego in WebAssembly: bundles are verified, loaded and asked here. No verdict means no."""
