"""The record of every decision and outcome: written durably before anything runs, verified offline."""
