"""The command of the executors: executor.py [MODULE with functions for other programs [PROGRAM]]"""

import sys

import python_host

python_host.serve(sys.argv[1])
