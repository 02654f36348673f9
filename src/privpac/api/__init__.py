"""What most people touch: one module for each thing that they ask for, each a thin layer over the folders below.

Read ``learn`` first.  May import everything but the command line, the service, the studio and reports.
"""
