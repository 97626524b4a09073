"""Figures as ratios beside a floor measured in the same run. `make bench` prints them all."""
