"""Measurements that mean something on a noisy machine: see bench/README.md."""
