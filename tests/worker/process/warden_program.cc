// What an agent starts above a command: the warden that `mobula job-warden` is.
#include "worker/process/warden.h"

int main(int argc, char** argv) {
  return argc == 2 ? mobula::internal::worker::run_warden(argv[1]) : 2;
}
