// The test program, which the agent under test starts again as its executors: real ones, which take
// up their work in mobula::init, or small ones, which print their assignment. In the role of an
// agent it runs run_worker with arguments in the order of `run_agent`.
#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "client/executor/fork_server.h"
#include "mobula/cluster.h"
#include "protocol/codec/messages.h"
#include "transport/local/local_frame.h"
#include "worker/worker_main.h"

namespace {

using namespace mobula::internal;

void print_variable(const char* name) {
  const char* value = std::getenv(name);
  std::printf("%s=%s\n", name, value == nullptr ? "(unset)" : value);
}

int link_of_small_executor = -1;

[[noreturn]] void run_small_executor() {
  using namespace executor;
  ForkedExecutor self = started_as() == StartedAs::fork_server
                            ? run_fork_server()
                            : adopt_executor_from_environment().value();
  const auto hear = [&] {
    // A prestarted executor waits for a long time.
    const auto frame = receive_frame(self.link, monotonic_now() + 300s);
    if (!frame) leave_executor(0);
    return decode<AgentToProcess>(frame->bytes).value();
  };
  link_of_small_executor = self.link.get();
  std::signal(SIGUSR1, [](int) {
    ::close(link_of_small_executor);
    while (true) ::pause();
  });
  const auto prepare = std::get<PrepareExecutor>(hear());
  std::ofstream(prepare.local_endpoint).flush();  // as if it listened there
  const auto assign = std::get<AssignExecutor>(hear());
  for (const auto& [name, value] : assign.accelerator_env) ::setenv(name.c_str(), value.c_str(), 1);
  const auto say = [&](const ProcessToAgent& said) {
    (void)send_frame(self.link, encode(said), {}, monotonic_now() + 30s);
  };
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "OF_THE_JOB"}) {
    print_variable(name);
  }
  for (const auto& [resource, ids] : assign.resource_ids) {
    std::string all;
    for (const auto& id : ids) all += id + ";";
    std::printf("%s has %s\n", resource.c_str(), all.c_str());
  }
  std::fflush(stdout);
  say(RunningNow{"sum", {}});
  Endpoint endpoint;
  endpoint.process = assign.process;
  endpoint.node = assign.node;
  endpoint.local = prepare.local_endpoint;
  endpoint.public_key = prepare.curve_public_key;
  say(ExecutorReady{assign.process, endpoint});
  while (true) {
    const auto next = receive_frame(self.link, monotonic_now() + 120s);
    if (!next) leave_executor(0);
    const auto order = decode<AgentToProcess>(next->bytes);
    if (order && std::holds_alternative<EndExecutor>(*order)) {
      // The agent receives the last messages although the exit follows at once.
      say(ExecutorRetires{EndKind::retired});
      leave_executor(0);
    }
  }
}

int run_agent(char** argv) {
  worker::WorkerMainOptions options;
  options.head_address = argv[1];
  options.key_file = argv[2];
  options.directory = argv[3];
  options.runtime_dir = argv[4];
  options.life_fd = std::atoi(argv[5]);
  options.cluster = "test";
  options.on_ready = [](const AgentFile&) {
    std::puts("ready");
    std::fflush(stdout);
  };
  return worker::run_worker(options);
}

}  // namespace

int main(int argc, char** argv) {
  const char* kind = std::getenv("MOBULA_SERVICE_TEST");
  if (mobula::in_executor()) {
    if (kind != nullptr && std::string(kind) == "small") run_small_executor();
    auto cluster = mobula::init(argc, argv);
  }
  if (kind != nullptr && std::string(kind) == "agent" && argc == 6) return run_agent(argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
