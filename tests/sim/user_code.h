// A thread of user code: one item of a driver, or one call in an executor. It follows its plan step by
// step, waits where user code would block, and gives its result as the product's shells do. The rest of
// its process is reached through Process. One thread of the simulator.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "executor/core/executor_core.h"
#include "model/error_record.h"
#include "sim/plan.h"

namespace mobula::internal::sim {

class Process;

// What came out of reading an object.
struct Reading {
  std::optional<ErrorRecord> error;
  std::uint64_t number = 0;
  RefRecords contained;
};

class Thread {
 public:
  // An item of a driver: `task` is the root its children hang on.
  Thread(Process& process, std::uint64_t key, const Plan& plan, TaskId task);
  // A call of an executor.
  Thread(Process& process, executor::RunCall run, const Plan& plan);

  std::uint64_t key() const { return key_; }
  bool done() const { return stage_ == Stage::done; }
  const std::string& plan_name() const { return plan_.name; }
  TaskId task() const { return task_; }
  std::string waits_for() const;
  // What its call has taken by now.
  std::int64_t memory_mib(Time now) const;
  void cancel() { cancelled_ = true; }

  // Goes on as far as it can.
  void advance();
  // Something has changed: true if it could go on now.
  bool can_go_on() const { return waiting_ && !woken_ && waiting_(); }
  void wake();

 private:
  enum class Stage : std::uint8_t { reading, working, storing, settling, done };
  struct Var {
    ObjectId object;  // counted; for handles that of the actor
    ActorId actor;
    GroupId group{};
  };

  bool is_call() const { return run_.token != 0; }
  void read_arguments();
  void work();
  bool take(const Step& step);  // false: it waits
  bool get(ObjectId object, bool mixes, bool tolerant);
  bool get_each(const RefRecords& refs, bool mixes);
  bool put(const Step& step);
  bool wait_any(const Step& step);
  bool find_actor(const Step& step);
  void submit(const Step& step);
  void make_actor(const Step& step);
  bool get_or_make(const Step& step);
  void call_actor(const Step& step);
  void make_group(const Step& step);
  void call_refs(const Step& step);
  void keep_refs();
  Arguments arguments_of(const Step& step, std::vector<Expected>& expected) const;
  RefRecords records_of(const std::vector<int>& vars) const;
  Expected expected_of(ObjectId object) const;
  Expected expected_put(const Step& step) const;
  void store_result();
  void settle();
  void finish();
  void fail(ErrorRecord error);
  void fail(ErrorKind kind, std::string text);
  void want(ObjectId object);
  void unwant(ObjectId object);
  void look_again();
  void keep_tensors();
  void let_go();
  void block(std::function<bool()> until, bool tell);
  void sleep(Duration span);

  Process& process_;
  const std::uint64_t key_;
  const Plan& plan_;
  const TaskId task_;
  executor::RunCall run_;
  std::vector<Step> steps_;
  Stage stage_ = Stage::reading;
  std::size_t next_ = 0;         // step
  std::size_t inner_ = 0;        // within a step that reads several
  bool began_ = false;           // the step has done what it does once
  std::vector<Var> vars_;
  RefRecords refs_;  // inside the arguments
  RefRecords tensors_;  // of the result, made here
  RefRecords given_tensors_;  // by arguments
  bool dropped_ = false;         // what the call was given
  std::vector<ObjectId> leases_; // adopted: refs and contents of values read
  std::vector<ObjectId> wanted_; // waited for, or looked at
  std::vector<std::pair<ObjectId, std::uint64_t>> looked_at_;  // in place, with what was there
  std::uint64_t read_ = 0;
  std::uint64_t children_ = 0, puts_ = 0, actors_ = 0, groups_ = 0;
  std::optional<ErrorRecord> error_;
  bool cancelled_ = false;
  bool leave_ = false;
  std::uint64_t request_ = 0;    // to the head
  int tries_ = 0;
  Time began_at_;

  std::function<bool()> waiting_;
  bool woken_ = false;
  bool told_blocked_ = false;

  executor::CallFinished finished_;
  RefRecords reachable_;  // by the call's arguments
};

}  // namespace mobula::internal::sim
