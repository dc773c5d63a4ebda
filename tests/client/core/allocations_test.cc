// Allocations of a call after equal calls have warmed the caches: in the cores and the codec of its
// caller and its executor. Allocations of user code and of the shells are not counted.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/core/client_core.h"
#include "client/executor/core/executor_core.h"
#include "protocol/codec/encoder.h"
#include "protocol/codec/messages.h"

namespace {
std::size_t allocations = 0;  // count for this program, which has one thread
}

void* operator new(std::size_t bytes) {
  ++allocations;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace mobula::internal {
namespace {

constexpr ProcessId caller_id() { return ProcessId::of(1); }
constexpr ProcessId executor_id() { return ProcessId::of(2); }

client::ClientOptions caller_options() {
  client::ClientOptions options;
  options.process = caller_id();
  options.job = JobId::of(1);
  return options;
}

// A caller and an executor that exchange encoded frames.
class OneCallAtATime : public testing::Test {
 protected:
  enum Part { submitting, arriving, running, answering, letting_go, parts };

  OneCallAtATime() : caller_(caller_options()) {
    StartJob job;
    job.job = JobId::of(1);
    tell_caller(client::Attached{NodeId::of(1), ProcessId::of(9), job});
    AssignExecutor assignment;
    assignment.lessee = caller_id();
    tell_executor(executor::Assigned{assignment});
    CallForm form;
    form.job = JobId::of(1);
    form.name = "a function with a name of some length";
    form_ = form;
  }

  void tell_caller(client::Event event) {
    to_caller_.clear();
    caller_.step(now_, std::move(event), to_caller_);
  }
  void tell_executor(executor::Event event) {
    to_executor_.clear();
    executor_.step(now_, std::move(event), to_executor_);
  }

  // The bytes of the single frame of the last step.
  const Bytes& said_by_caller() {
    for (const auto& each : to_caller_) {
      if (const auto* sent = std::get_if<client::SendToExecutor>(&each))
        return encode_(sent->frame);
    }
    return none_;
  }
  const Bytes& said_by_executor() {
    for (const auto& each : to_executor_) {
      if (const auto* sent = std::get_if<executor::SendToCaller>(&each))
        return encode_(sent->frame);
    }
    return none_;
  }

  void call(bool with_argument) {
    now_ = now_ + 10us;
    const TaskId task = child_id(TaskId::of(1), ++calls_);
    std::size_t before = allocations;
    const auto count = [&](Part part) {
      counts_[part] += allocations - std::exchange(before, allocations);
    };

    client::SubmitTask submit;
    submit.call.task = task;
    submit.call.form = form_;
    if (with_argument) {
      Argument argument;
      argument.value.bytes = Payload(std::as_bytes(std::span(&calls_, 1)));
      argument.value.size_bytes = sizeof calls_;
      submit.call.arguments.edit().push_back(std::move(argument));
    }
    submit.demand_class.id = ClassId::of(5);
    tell_caller(std::move(submit));
    if (calls_ == 1) give_slot();
    const Bytes& pushed_bytes = said_by_caller();
    count(submitting);

    auto pushed = decode<CallerFrame>(pushed_bytes);
    ASSERT_TRUE(pushed.ok());
    tell_executor(executor::ReceivedFromCaller{caller_id(), std::move(*pushed)});
    auto* run = std::get_if<executor::RunCall>(&to_executor_.front());
    ASSERT_NE(run, nullptr);
    count(arriving);

    executor::CallFinished finished;
    finished.token = run->token;
    ValueRecord result;
    result.bytes = Payload(std::as_bytes(std::span(&calls_, 1)));
    result.size_bytes = sizeof calls_;
    finished.results.push_back(std::move(result));
    finished.run_time = 1us;
    tell_executor(std::move(finished));
    const Bytes& answer_bytes = said_by_executor();
    count(running);

    auto answer = decode<ExecutorFrame>(answer_bytes);
    ASSERT_TRUE(answer.ok());
    tell_caller(client::ReceivedFromExecutor{executor_id(), std::move(*answer)});
    count(answering);
    ASSERT_TRUE(caller_.settled(result_id(task, 0)));
    before = allocations;

    tell_caller(client::ReleaseRef{result_id(task, 0)});
    count(letting_go);
  }

  void give_slot() {
    SlotReady ready;
    ready.slot = SlotId::of(1);
    ready.demand_class = ClassId::of(5);
    ready.node = NodeId::of(1);
    ready.endpoint.process = executor_id();
    tell_caller(client::ReceivedFromAgent{FromHead{ready}});
  }

  // Counts over many calls, after a warm-up.
  void measure(bool with_argument) {
    for (int i = 0; i < 2000 && !HasFatalFailure(); ++i) call(with_argument);
    counts_ = {};
    for (int i = 0; i < measured && !HasFatalFailure(); ++i) call(with_argument);
  }
  double by_caller() const {
    return per_call(counts_[submitting] + counts_[answering] + counts_[letting_go]);
  }
  double by_executor() const { return per_call(counts_[arriving] + counts_[running]); }
  static double per_call(std::size_t count) { return static_cast<double>(count) / measured; }
  std::string all() const {
    std::string text = "submitting, arriving, running, answering, releasing:";
    for (const std::size_t each : counts_) text += " " + std::to_string(per_call(each));
    return text;
  }

  static constexpr int measured = 1000;
  client::ClientCore caller_;
  executor::ExecutorCore executor_;
  Time now_ = Time::from_ns(1);
  std::vector<client::Command> to_caller_;
  std::vector<executor::Command> to_executor_;
  CopyOnWrite<CallForm> form_;
  std::uint64_t calls_ = 0;
  Encoder encode_;
  const Bytes none_;
  std::array<std::size_t, parts> counts_{};
};

TEST_F(OneCallAtATime, AllocatesNothingWithoutArguments) {
  measure(false);
  EXPECT_EQ(by_caller(), 0) << all();
  EXPECT_EQ(by_executor(), 0) << all();
}

TEST_F(OneCallAtATime, AllocatesNothingWithSmallArgument) {
  measure(true);
  EXPECT_EQ(by_caller(), 0) << all();
  EXPECT_EQ(by_executor(), 0) << all();
}

}  // namespace
}  // namespace mobula::internal
