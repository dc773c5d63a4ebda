// Creates the detached actor "echo", then exits. mobula-bench-services runs it.
#include <mobula/mobula.h>
#include <mobula/service.h>

#include "bench/echo.h"

int RemoteEcho::next(int x) { return x + 1; }

const mobula::Service<RemoteEcho, &RemoteEcho::next> echo_service;

int main(int argc, char** argv) {
  const auto cluster = mobula::init(argc, argv);
  const auto echo = mobula::actor<RemoteEcho>
                        .options({.name = "echo",
                                  .name_space = "bench",
                                  .lifetime = mobula::Lifetime::detached,
                                  .num_cpus = 0})
                        .remote();
  mobula::get(echo.call<&RemoteEcho::next>(1));
}
