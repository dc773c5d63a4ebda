// The job shim that an agent starts above a command: the role of `mobula job-job_shim`.
#include "worker/process/job_shim.h"

int main(int argc, char** argv) {
  return argc == 2 ? mobula::internal::worker::run_job_shim(argv[1]) : 2;
}
