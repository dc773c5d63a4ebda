// The public library's Runtime over a ProcessEngine: options become requests, and waits become
// waits on the engine. Drivers and executors use the same class. The TaskContext of the calling
// thread identifies the parent of children and puts.
// Thread: any.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "client/engine/callee/task_context.h"
#include "client/engine/caller/completion_calls.h"
#include "client/engine/process_engine.h"
#include "client/engine/process_values.h"
#include "client/engine/tensors/local_tensors.h"
#include "client/engine/tensors/tensor_holders.h"
#include "mobula/detail/runtime.h"

namespace mobula::internal::collective {
struct GroupRegistryOptions;
}  // namespace mobula::internal::collective

namespace mobula::internal::client {

struct RuntimeOptions {
  JobId job;
  ProgramId program;
  std::string name_space;
  Environment env;  // in executors: environment of the job, for children too
  std::int64_t max_pending_bytes = std::int64_t{1} << 30;
  GroupPlacement captured;             // in executors: placement of children
  RefRecord self;                      // in actors: handle of the actor
  std::string self_class;              // in actors: name of the class
  std::shared_ptr<TaskContext> root;   // shared; context of threads outside of tasks
  exchange::ExchangeOptions exchange;  // tensor exchange; its node is the engine's node
  std::function<bool(const std::function<bool()>&)> run_calls_until = {};  // in executors
};

class ProcessRuntime final : public detail::Runtime,
                             public std::enable_shared_from_this<ProcessRuntime> {
 public:
  ProcessRuntime(std::shared_ptr<ProcessEngine> engine, RuntimeOptions options);

  detail::Done submit_task(const detail::TaskSubmission& task) override;
  detail::Answer<detail::RawId> create_actor(const detail::ActorCreation& creation) override;
  detail::Done call_actor(const detail::ActorCall& call) override;
  detail::Answer<detail::RawId> put(const detail::Outgoing& value,
                                    const detail::PutRequest& request) override;
  detail::Done get(std::span<const detail::RawId> objects, const detail::GetRequest& request,
                   std::span<detail::StoredValue> values) override;
  detail::Answer<std::size_t> get_some(std::span<const detail::RawId> objects,
                                       const detail::GetRequest& request,
                                       std::span<detail::StoredValue> values) override;
  detail::Answer<std::vector<bool>> wait(std::span<const detail::RawId> objects,
                                         std::size_t num_returns, const detail::Deadline& deadline,
                                         bool fetch_local) override;
  detail::Answer<detail::NextItem> next_item(detail::RawId position,
                                             const detail::Deadline& deadline) override;
  detail::Done cancel(detail::RawId object, bool force, bool recursive) override;
  detail::Done kill(detail::RawId actor, bool no_restart) override;
  void retain(detail::ContainedRef ref) noexcept override;
  void release(detail::ContainedRef ref) noexcept override;
  std::shared_ptr<const detail::ContextRecord> context() override;
  bool cancelled() override;
  void* stream() override;
  bool run_calls_until(const std::function<bool()>& ready) override {
    return options_.run_calls_until && options_.run_calls_until(ready);
  }
  detail::Done exit_actor() override;
  detail::Answer<detail::NamedActor> current_actor() override;
  detail::Answer<std::vector<Node>> nodes() override;
  detail::Answer<std::map<std::string, double>> cluster_resources() override;
  detail::Answer<std::map<std::string, double>> available_resources() override;
  detail::Answer<detail::NamedActor> get_actor(std::string_view name,
                                               std::string_view name_space) override;
  detail::Answer<std::vector<std::string>> list_named_actors() override;
  detail::Done report_experiment(std::string_view report) override;
  detail::Answer<detail::RawId> create_group(const detail::GroupRequest& request) override;
  detail::Answer<detail::RawId> group_ready(detail::RawId group) override;
  detail::Done remove_group(detail::RawId group) override;
  detail::Answer<PlacementGroup> get_group(std::string_view name,
                                           std::string_view name_space) override;
  detail::Answer<std::vector<PlacementGroupInfo>> groups() override;
  std::vector<Transfer> transfers() override;
  void note_of_group(TransferRecord&& record) override;
  detail::Done wait_tensor_freed(const Tensor& tensor, const detail::Deadline& deadline) override;
  std::shared_ptr<detail::CollectiveGroups> collectives() override { return collectives_; }
  std::shared_ptr<detail::CompletionSource> completion_source() override {
    return {shared_from_this(), &completions_};
  }

  // ---- for the executor's loop ----------------------------------------------------------------
  ProcessEngine& engine() { return *engine_; }
  const RefRecord& self() const { return options_.self; }
  ProcessValues& values() { return values_; }
  // Blocks the thread of a running call, as `wait` does, until its window has space for an item.
  // Fails when the call is cancelled.
  detail::Done wait_for_consumers(ProcessEngine::Lock& lock,
                                  const std::function<bool()>& has_space);
  // Requires the engine's lock.
  LocalTensors& tensors() { return tensors_; }

 private:
  std::shared_ptr<TaskContext> task() const;
  // Values too large for a message are stored first, and released once the call is submitted.
  struct Puts {
    PooledVector<ObjectId> objects;  // one per argument; empty: the value goes in the message
    std::int64_t bytes = 0;
  };
  // Waits for max_pending_bytes before it stores values.
  detail::Done put_large(std::span<const detail::Argument> given, bool block, Puts& puts);
  void submitted(const Puts& puts);
  CopyOnWrite<Arguments> arguments_of(ProcessEngine::Lock& lock,
                                      std::span<const detail::Argument> given, const Puts& puts);
  detail::Done wait_for_budget(ProcessEngine::Lock& lock, bool block, std::int64_t more = 0);
  detail::Done check_pending_calls(ProcessEngine::Lock& lock, ActorId actor);
  enum class Waited : std::uint8_t { ready, timed_out, cancelled, interrupted };
  static bool ended_early(Waited waited) { return waited >= Waited::cancelled; }
  // The error of a wait that ended early.
  static detail::ErrorRecord ended_error(Waited waited, std::string_view operation);
  // Describes a wait in messages: the public operation, and a reason, which is computed only when
  // it is printed.
  struct WaitFor {
    std::string_view operation;
    std::function<std::string()> reason;
    std::function<bool()> stalled = {};  // called at intervals; true ends the wait as ready
    std::span<const detail::RawId> needed =
        {};  // objects without which it does not end; see BlockedOn
    std::span<const detail::RawId> objects = {};  // the head may know why these are pending
    std::string* from_head = nullptr;             // receives the head's reason with the warning
  };
  // Waits until `ready`. A cancelled task does not wait: it gets `cancelled` at once, unless
  // `ready` holds. The same applies to a thread with a pending interruption. Prints one warning
  // with the reason if the wait lasts longer than `slow_wait_delay`.
  Waited blocking_wait(ProcessEngine::Lock& lock, const WaitFor& what,
                       const detail::Deadline& deadline, const std::function<bool()>& ready);
  std::vector<TensorHolder> holders_of(ProcessEngine::Lock& lock,
                                       const detail::TensorStorage& storage);
  std::string why_never_freed(ProcessEngine::Lock& lock, const detail::TensorStorage& storage,
                              const std::vector<TensorHolder>& holders);
  std::optional<std::string> query_head(ProcessEngine::Lock& lock, const std::string& kind,
                                        const std::string& argument);
  std::size_t awaited_calls(ProcessEngine::Lock& lock, CallerState state, ProcessId holder);
  detail::Answer<bool> wait_for_report(const detail::Deadline& deadline,
                                       const std::function<bool()>& ready,
                                       const CompletionCalls::Waiting& waiting);
  bool is_local(ObjectId object) const;
  std::optional<detail::Answer<detail::NextItem>> take_item(ObjectId position);
  detail::Done check_device(const detail::GetRequest& request);
  detail::Answer<std::size_t> get_batch(std::span<const detail::RawId> objects,
                                        const detail::GetRequest& request,
                                        std::span<detail::StoredValue> values, bool whole);
  using Pulls = std::vector<LocalTensors::PullPtr>;
  detail::Done pull_tensors(ProcessEngine::Lock& lock, std::span<const detail::RawId> objects,
                            const detail::GetRequest& request, Pulls& pulls,
                            const std::function<detail::Done()>& values_settled);
  DemandClass class_of(const detail::ResourceRequest& resources, std::int32_t max_calls,
                       ProgramId program) const;
  // The program of the running job with this name; asks the head at most once per second.
  detail::Answer<ProgramId> program_of(std::string_view job_name);
  ActorSpec spec_of(const detail::ActorCreation& creation);
  CallForm form_of(CallKind kind, const detail::FunctionKey& function,
                   std::size_t num_returns) const;

  // Key of the cached constant parts of calls with one request of one function (of one actor).
  // Options written at the call site create a new request each time, so equal requests also share a
  // row.
  struct Calls {
    const void* request = nullptr;  // null: any request
    FunctionKey function;
    ActorId actor;
    std::uint64_t name = 0;  // untyped calls, which share a function: hash of the name
    std::size_t row_hash() const;
    friend bool operator==(const Calls&, const Calls&) = default;
  };
  struct Prepared {
    std::shared_ptr<const void> request;  // shared; keeps the address of the key in use
    CopyOnWrite<CallForm> form;
    DemandClass demand_class;  // set for tasks
  };
  template <class Request, class Prepare>
  const Prepared& prepared(std::shared_ptr<const Request> request,
                           const detail::FunctionKey& function, ActorId actor, std::uint64_t name,
                           Prepare prepare);

  detail::Answer<std::string> read_state(const std::string& kind, const std::string& argument);
  collective::GroupRegistryOptions registry_options();
  detail::ErrorRecord timeout_error(std::span<const detail::RawId> objects,
                                    const std::string& from_head);

  // An id of an actor or a group. A repeated run of a task makes new ones: the earlier ones have
  // died with their owner.
  template <class Id>
  Id new_id(std::string_view kind) {
    return Id::derived(engine_->core().options().process, kind, ids_made_++);
  }

  const std::shared_ptr<ProcessEngine> engine_;  // shared with the loop that runs calls
  const RuntimeOptions options_;
  // Guarded by the engine's lock.
  Table<Calls, Prepared> prepared_;
  // rows of `prepared_` for any request, latest first
  Table<Calls, std::array<const Prepared*, 4>> last_prepared_;
  struct KnownProgram {
    ProgramId id;
    Time until;  // the job with this name may run another program later
  };
  std::map<std::string, KnownProgram, std::less<>> programs_;  // by the name of a job
  std::uint64_t ids_made_ = 0;
  std::int64_t submitting_bytes_ = 0;  // bytes of large arguments of calls being submitted
  LocalTensors tensors_;
  ProcessValues values_;
  CompletionCalls completions_;
  // Shared with running operations. Any thread.
  const std::shared_ptr<detail::CollectiveGroups> collectives_;
};

}  // namespace mobula::internal::client
