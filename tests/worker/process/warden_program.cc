// The job shim that an agent starts above a command: the role of `mobula job-warden`.
#include "worker/process/warden.h"

int main(int argc, char** argv) {
  return argc == 2 ? mobula::internal::worker::run_warden(argv[1]) : 2;
}
