"""What everything stands on: the protocol, pytrees, checks, the trial axis, random numbers, boundaries, ranks."""
