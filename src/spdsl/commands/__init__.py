"""The groups of the command line, one module each: arguments in, library calls, messages out."""
