// A ProcessEngine between user threads and its agent, with the runtime of this process.
// Thread: the main thread.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <tuple>
#include <utility>

#include "client/engine/fake_agent.h"
#include "client/engine/process_runtime.h"

namespace mobula::internal::client {

class Engine : public testing::TestWithParam<std::tuple<int, Way>> {
 protected:
  ~Engine() override { detail::install_runtime(nullptr); }

  void start(std::unique_ptr<EngineOwner> owner = std::make_unique<EngineOwner>()) {
    owner_ = std::move(owner);
    EngineOptions options;
    options.core.process = ProcessId::of(1);
    options.core.job = JobId::of(1);
    options.core.idle_return = idle_return_;
    options.ring_idle = ring_idle_;
    StartJob job;
    job.job = JobId::of(1);
    job.driver = ProcessId::of(1);
    auto sockets = ProcessSockets::open({CurveKeys::generate().value(), {}, {}}).value();
    engine_ =
        ProcessEngine::start(std::move(options), *owner_, std::move(sockets), agent_->take_link(),
                             Attached{NodeId::of(1), ProcessId::of(9), job})
            .value();
    RuntimeOptions runtime;
    runtime.job = JobId::of(1);
    runtime.root = std::make_shared<TaskContext>();
    runtime.root->task = TaskId::of(1);
    runtime.root->of_process = std::make_shared<detail::ContextRecord>();
    const auto installed = std::make_shared<ProcessRuntime>(engine_, std::move(runtime));
    runtime_ = installed;
    detail::install_runtime(installed);
  }

  // Objects released by user threads leave the tables of the core, although no message reports it.
  bool nothing_is_left() {
    for (const Time until = monotonic_now() + std::chrono::seconds(20); monotonic_now() < until;
         std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
      const auto held = engine_->lock();
      const auto sizes = engine_->core().sizes();
      if (sizes.objects == 0 && sizes.tasks == 0 && sizes.writes == 0) return true;
    }
    return false;
  }

  Duration idle_return_ = ClientOptions().idle_return;
  Duration ring_idle_ = EngineOptions().ring_idle;
  std::unique_ptr<FakeAgent> agent_ = std::make_unique<FakeAgent>();
  std::unique_ptr<EngineOwner> owner_;
  std::shared_ptr<ProcessEngine> engine_;
  std::weak_ptr<ProcessRuntime> runtime_;
};

}  // namespace mobula::internal::client
