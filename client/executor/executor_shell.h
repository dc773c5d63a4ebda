// An executor process: starts the engine with its callee half and the runtime for user code, has
// threads for the calls of the runner, and exits.
// Thread: any; members are guarded by the engine's lock unless they state another rule.
// Errors: start().
// Not: decisions about calls (ExecutorCore), their arguments and callers (CalleeHalf).
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/fd.h"
#include "client/engine/process_runtime.h"
#include "client/executor/call_runner.h"
#include "client/executor/deferred_call.h"
#include "client/executor/thread_limits.h"
#include "protocol/recording/recorder.h"
#include "transport/bus/process_sockets.h"

namespace mobula::internal::executor {

class ExecutorShell : client::EngineOwner {
 public:
  ExecutorShell(PrepareExecutor prepare, AssignExecutor assignment,
                std::unique_ptr<ProcessSockets> sockets, Fd link)
      : prepare_(std::move(prepare)),
        assignment_(std::move(assignment)),
        sockets_(std::move(sockets)),
        link_(std::move(link)) {}

  Result<void> start();
  [[noreturn]] void run_calls();

 private:
  RecordOptions open_recording(std::unique_ptr<Recorder>& of_callee) const;
  void flush_recordings();
  // client::EngineOwner
  void agent_lost(const Failure& why) override;
  void beside_call_queued() override;
  void call_cancelled(const std::shared_ptr<client::TaskContext>& call) override;
  void leave(const Leave& command) override;

  client::CalleeHalf& callee() { return *engine_->callee(); }
  void leave(int code, bool exit_handlers);
  [[noreturn]] static void run_exit_handlers(int code) noexcept;
  // Requests the farewell of the host from the main thread. False: the process exits without it.
  bool request_farewell(int code, bool exit_handlers);
  [[noreturn]] void say_farewell(client::ProcessEngine::Lock& lock);
  bool on_main_thread() const { return std::this_thread::get_id() == main_thread_; }
  void destroy_actor(client::ProcessEngine::Lock& lock);
  void be_replaced(const std::string& why);
  // Runs calls of one concurrency group, or those outside the actor's order (CallGroups::no_group).
  void serve(std::uint32_t group);
  DeferredCall::Host make_host();
  exchange::ExchangeOptions exchange_options();
  void name_self(client::RuntimeOptions& options) const;
  void run_call(std::uint32_t group, client::ProcessEngine::Lock& lock);
  void run_jobs(std::uint32_t group, client::ProcessEngine::Lock& lock);
  bool wait_for_work(std::uint32_t group, client::ProcessEngine::Lock& lock,
                     std::optional<Time> deadline, const std::function<bool()>& has_work);
  // See detail::Runtime::run_calls_until.
  bool serve_until(const std::function<bool()>& ready);
  // The calls of an asynchronous actor without a concurrency group: one thread at a time runs them,
  // its own one, or a guest, which is a thread of another call that waits.
  bool is_shared(std::uint32_t group) const { return group == 0 && assignment_.actor.threads == 1; }
  bool is_unserved() const { return server_ == std::thread::id(); }
  // True if the group's own thread can run a call.
  bool has_calls(std::uint32_t group) {
    return runner_.has_calls(group) && !(is_shared(group) && (guests_ > 0 || !is_unserved()));
  }

  const PrepareExecutor prepare_;
  AssignExecutor assignment_;
  const ThreadLimits thread_limits_{assignment_.allocation};
  std::unique_ptr<ProcessSockets> sockets_;  // both move into the engine in start()
  Fd link_;
  std::shared_ptr<client::ProcessEngine> engine_;    // shared with the runtime
  std::shared_ptr<client::ProcessRuntime> runtime_;  // shared; installed for user code
  DeferredCall::Host host_;                          // set before the first call
  CallRunner runner_{assignment_};
  std::shared_ptr<const detail::ContextRecord> record_of_process_;

  std::thread::id server_;           // thread that runs code of the shared group
  int guests_ = 0;                   // threads in serve_until()
  std::thread beside_;               // starts with the first call outside the order
  bool is_lost_ = false;             // devices are lost: exit when no call runs
  std::unique_ptr<Timer> replaced_;  // used by the loop thread
  bool leaving_ = false;

  // Marks the calling thread as the one that runs code of the shared group.
  class ServerScope {
   public:
    ServerScope(ExecutorShell& shell, std::uint32_t group)
        : shell_(shell), is_shared_(shell.is_shared(group)) {
      if (is_shared_) shell.server_ = std::this_thread::get_id();
    }
    ~ServerScope() {
      if (!is_shared_) return;
      shell_.server_ = {};
      if (shell_.guests_ > 0) shell_.engine_->notify();
    }
    ServerScope(const ServerScope&) = delete;
    ServerScope& operator=(const ServerScope&) = delete;

   private:
    ExecutorShell& shell_;
    const bool is_shared_;
  };

  // The farewell of the language host: its hook `leave` before the process exits.
  struct Farewell {
    int code = 0;
    bool exit_handlers = false;
  };
  const std::thread::id main_thread_ = std::this_thread::get_id();
  bool main_thread_runs_ = false;  // user code
  std::optional<Farewell> farewell_;
  std::atomic<bool> exits_{false};  // the main thread, or the timer at the end of the limit, exits
  std::unique_ptr<Timer> farewell_by_;  // used by the loop thread
};

}  // namespace mobula::internal::executor
