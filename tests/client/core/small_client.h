// A client core with a simulated agent, head, and executors that send the messages a test requests.
// One job, and one demand class unless a test names another.
// Thread: owner.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "client/core/client_core.h"

namespace mobula::internal::client {

class SmallClient : public testing::Test {
 protected:
  explicit SmallClient(ClientOptions options = {});

  // Steps the core and returns all commands of the step, which are also kept in `out`.
  const std::vector<Command>& step(Event event);
  void pass(Duration time);

  // ---- user code ------------------------------------------------------------------------------
  static constexpr NodeId node() { return NodeId::of(1); }
  static ObjectId result(TaskId task, std::uint32_t index = 0) { return result_id(task, index); }
  SubmitTask task(std::uint64_t number);
  TaskId submit(const SubmitTask& task);
  TaskId submit() { return submit(task(++tasks_)); }
  ActorId make_actor(std::uint64_t number, std::int32_t max_task_retries = 0);
  TaskId call(ActorId actor);
  static ValueRecord value(const std::string& text);
  // A value of 1 MiB in the store of node `at`.
  static ValueRecord stored(NodeId at) {
    ValueRecord record;
    record.in_store = true;
    record.size_bytes = 1 << 20;
    record.location = at;
    return record;
  }
  // A ref of another process, with its home on node 2.
  static RefRecord foreign(std::uint64_t number) {
    return {ObjectId::of(number), NodeId::of(2), ProcessId::of(50), {}};
  }
  static Argument by_ref(const RefRecord& ref);
  void release(ObjectId object) { step(ReleaseRef{object}); }
  // "value", "error", or "pending".
  std::string state(ObjectId object) const;
  ErrorRecord error(ObjectId object) const;
  std::string text(ObjectId object) const;

  // ---- head and agent -------------------------------------------------------------------------
  void head(HeadToProcess message) { agent(FromHead{std::move(message)}); }
  void agent(AgentToProcess message) { step(ReceivedFromAgent{std::move(message)}); }
  void slot(std::uint64_t slot, std::uint64_t executor, std::uint32_t generation = 0);
  void slot_executor_ends(std::uint64_t slot, std::uint64_t executor, EndKind kind);
  void actor_alive(ActorId actor, std::uint64_t executor, std::uint64_t version);

  // ---- executors ------------------------------------------------------------------------------
  // Calls sent to this executor without a reply, oldest first.
  std::vector<PushCall> calls_at(std::uint64_t executor) const;
  void say(std::uint64_t executor, ExecutorMessage message);
  void reply(std::uint64_t executor, CallReply reply);
  void reply_value(std::uint64_t executor, const std::string& text);  // to the oldest call
  void reply_exception(std::uint64_t executor);
  void hand_back_all(std::uint64_t executor);
  void take_back(std::uint64_t executor, std::uint64_t number);  // removes a call from the executor

  // Messages of one type in the last step.
  template <class M>
  std::vector<M> to_agent() const {
    return pick<M>([](const Command& command) -> const ProcessToAgent* {
      const auto* sent = std::get_if<SendToAgent>(&command);
      return sent == nullptr ? nullptr : &sent->message;
    });
  }
  template <class M>
  std::vector<M> to_head() const {
    return pick<M>([](const Command& command) -> const ProcessToHead* {
      const auto* sent = std::get_if<SendToAgent>(&command);
      const auto* relayed = sent == nullptr ? nullptr : std::get_if<ForHead>(&sent->message);
      return relayed == nullptr ? nullptr : &relayed->message;
    });
  }
  template <class M>
  std::vector<M> to_executor() const {
    return pick<M>([](const Command& command) -> const CallerMessage* {
      const auto* sent = std::get_if<SendToExecutor>(&command);
      return sent == nullptr || !sent->frame.message ? nullptr : &*sent->frame.message;
    });
  }
  template <class C>
  std::vector<C> commanded() const {
    std::vector<C> found;
    for (const auto& each : out) {
      if (const auto* command = std::get_if<C>(&each)) found.push_back(*command);
    }
    return found;
  }

  ClientCore core_;
  Time now_ = Time::from_ns(1);
  bool checks_deadlines = true;  // checks after each step by a walk over all rows
  std::vector<Command> out;

 private:
  template <class M, class Access>
  std::vector<M> pick(const Access& access) const {
    std::vector<M> found;
    for (const auto& each : out) {
      const auto* message = access(each);
      const auto* wanted = message == nullptr ? nullptr : std::get_if<M>(message);
      if (wanted != nullptr) found.push_back(*wanted);
    }
    return found;
  }

  struct Executor {
    std::uint64_t sent = 0;      // sequence of its own messages
    std::uint64_t received = 0;  // sequence of the core's messages
    std::vector<PushCall> calls;
  };
  std::map<ProcessId, Executor> executors_;
  std::uint64_t tasks_ = 100;
};

}  // namespace mobula::internal::client
