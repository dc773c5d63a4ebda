// A thread of user code: one item of a driver, or one call in an executor. It follows its plan step
// by step, blocks as user code would, and returns its result as the product's shells do. It reaches
// the rest of its process through Process.
// Thread: the simulator's only thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/model/error_record.h"
#include "base/model/stream_link.h"
#include "client/executor/core/executor_core.h"
#include "sim/workload/plan.h"

namespace mobula::internal::sim {

class Process;

// The outcome of reading an object.
struct Reading {
  std::optional<ErrorRecord> error;
  std::uint64_t number = 0;
  RefRecords contained;
  std::optional<StreamLink> link{};  // position of a stream
};

class Thread {
 public:
  // Constructs an item of a driver. `task` is the parent of its tasks.
  Thread(Process& process, std::uint64_t key, const Plan& plan, TaskId task);
  // Constructs a call in an executor.
  Thread(Process& process, executor::RunCall run, const Plan& plan);

  std::uint64_t key() const { return key_; }
  bool done() const { return stage_ == Stage::done; }
  const std::string& plan_name() const { return plan_.name; }
  TaskId task() const { return task_; }
  std::string waits_for() const;
  // Memory that the call has taken so far.
  std::int64_t memory_mib(Time now) const;
  void cancel() { cancelled_ = true; }
  // True for a deferred call whose user code has returned.
  bool is_deferred() const { return returned_ && !done(); }

  // Runs until the thread blocks.
  void advance();
  // True if a blocked thread could continue now.
  bool can_go_on() const { return waiting_ && !woken_ && waiting_(); }
  void wake();

 private:
  enum class Stage : std::uint8_t { reading, working, storing, settling, done };
  struct Var {
    ObjectId object;  // counted; for handles, the object of the actor
    ActorId actor;
    GroupId group{};
  };

  bool is_call() const { return run_.token != 0; }
  void read_arguments();
  void work();
  bool take(const Step& step);  // returns false if the thread blocks
  bool get(ObjectId object, bool mixes, bool tolerant);
  bool get_each(const RefRecords& refs, bool mixes);
  bool put(const Step& step);
  bool wait_any(const Step& step);
  bool find_actor(const Step& step);
  void submit(const Step& step);
  void make_actor(const Step& step);
  void join_group(const Step& step, DemandClass& demand) const;
  bool get_or_make(const Step& step);
  void call_actor(const Step& step);
  void make_group(const Step& step);
  void call_refs(const Step& step);
  void keep_refs();
  Arguments arguments_of(const Step& step, std::vector<Expected>& expected) const;
  RefRecords records_of(const std::vector<int>& vars) const;
  Expected expected_of(ObjectId object) const;
  Expected expected_put(const Step& step) const;
  // user_code_streams.cc
  bool is_stream() const { return run_.call.form->stream.window != 0; }
  bool give_items();
  bool give_item();
  bool store_item(ObjectId object, std::uint64_t number);
  bool read_stream(const Step& step);
  bool await(ObjectId object);
  bool read_item();
  void end_reading();

  void store_result();
  void settle();
  void finish();
  void fail(ErrorRecord error);
  void fail(ErrorKind kind, std::string text);
  void want(ObjectId object);
  void unwant(ObjectId object);
  void read_mapped_again();
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
  std::size_t next_ = 0;   // index of the step
  std::size_t inner_ = 0;  // index within a step that reads several values
  bool returned_ = false;  // deferred call: user code returned
  bool began_ = false;     // the one-time part of the step is done
  std::vector<Var> vars_;
  RefRecords refs_;               // refs inside the arguments
  RefRecords tensors_;            // made here, inside the result
  RefRecords given_tensors_;      // from the arguments
  bool dropped_ = false;          // the call's arguments are released
  std::vector<ObjectId> leases_;  // adopted: refs and contents of read values
  std::vector<ObjectId> wanted_;  // awaited or mapped objects
  std::vector<std::pair<ObjectId, std::uint64_t>> mapped_reads_;  // mapped objects and their values
  std::uint64_t read_ = 0;
  std::uint64_t children_ = 0, puts_ = 0;
  std::optional<ErrorRecord> error_;
  bool cancelled_ = false;
  bool leave_ = false;
  std::uint64_t request_ = 0;  // request to the head
  int tries_ = 0;
  Time began_at_;

  std::uint64_t item_ = 0;                   // index of the next item that a streaming call gives
  bool reserved_ = false, written_ = false;  // its memory in the store
  ObjectId position_, item_read_;            // counted refs of a consumer
  ObjectId awaited_;                         // wanted by a consumer
  std::uint64_t taken_ = 0;                  // count of items that the consumer has taken

  std::function<bool()> waiting_;
  bool woken_ = false;
  bool blocked_reported_ = false;

  executor::CallFinished finished_;
  RefRecords reachable_;  // through the call's arguments
};

}  // namespace mobula::internal::sim
