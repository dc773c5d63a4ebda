"""The command of the executors."""

import python_host

python_host.serve()
