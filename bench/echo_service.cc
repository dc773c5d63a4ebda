// Creates the detached actor "echo", then exits. mobula-bench-services runs it.
#include <mobula/mobula.h>
#include <mobula/service.h>

#include "bench/echo.h"

int RemoteEcho::next(int x) { return x + 1; }

int next_number(int x) { return x + 1; }

const mobula::Service<RemoteEcho, &RemoteEcho::next> echo_service;
const mobula::Functions<&next_number> echo_functions;

int main(int argc, char** argv) {
  const auto cluster = mobula::init(argc, argv, {.job_name = "bench echo"});
  const auto echo = mobula::actor<RemoteEcho>
                        .options({.name = "echo",
                                  .name_space = "bench",
                                  .lifetime = mobula::Lifetime::detached,
                                  .num_cpus = 0})
                        .remote();
  mobula::get(echo.call<&RemoteEcho::next>(1));
}
