// The public library's Runtime over a ProcessEngine: options become requests, values become bytes in
// messages or in the node's store, waits become sleeps on the engine. The same in drivers and
// executors; the calling thread's TaskContext tells whose children and puts it makes. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/process_engine.h"
#include "client/task_context.h"
#include "client/tensor_desk.h"
#include "client/tensor_holders.h"
#include "mobula/detail/runtime.h"

namespace mobula::internal::collective {
struct DeskOptions;
}  // namespace mobula::internal::collective

namespace mobula::internal::client {

struct RuntimeOptions {
  JobId job;
  ProgramId program;
  std::string name_space;
  Environment env;                       // executors: the job's, inherited by children
  std::int64_t max_pending_bytes = std::int64_t{1} << 30;
  GroupPlacement captured;               // executors: where children are placed
  std::shared_ptr<TaskContext> root;     // for threads outside of tasks
  // With the engine's lock held: the thread of this running call begins or ends a wait.
  std::function<void(std::uint64_t token, bool on)> blocked;
  exchange::ExchangeOptions exchange;  // of tensors with other processes; its node is the engine's
  // With the engine's lock held: what is pulled has come or will not, or of what is kept less is left.
  std::function<void()> tensors_changed;
};

// Refs on results of tasks given to `owner` name it as their owner.
void redirect(RefRecords& refs, const HandedOver& given, ProcessId owner, NodeId home);

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
  detail::Answer<std::size_t> get_some(std::span<const detail::RawId> objects, const detail::GetRequest& request,
                                       std::span<detail::StoredValue> values) override;
  detail::Answer<std::vector<bool>> wait(std::span<const detail::RawId> objects,
                                         std::size_t num_returns, const detail::Deadline& deadline,
                                         bool fetch_local) override;
  detail::Done cancel(detail::RawId object, bool force, bool recursive) override;
  detail::Done kill(detail::RawId actor, bool no_restart) override;
  void retain(detail::ContainedRef ref) noexcept override;
  void release(detail::ContainedRef ref) noexcept override;
  // A view of the object's bytes is gone.
  void unwant(ObjectId object) noexcept;
  std::shared_ptr<const detail::ContextRecord> context() override;
  bool cancelled() override;
  void* stream() override;
  detail::Done exit_actor() override;
  detail::Answer<std::vector<Node>> nodes() override;
  detail::Answer<std::map<std::string, double>> cluster_resources() override;
  detail::Answer<std::map<std::string, double>> available_resources() override;
  detail::Answer<detail::NamedActor> get_actor(std::string_view name,
                                               std::string_view name_space) override;
  detail::Answer<std::vector<std::string>> list_named_actors() override;
  detail::Answer<detail::RawId> create_group(const detail::GroupRequest& request) override;
  detail::Answer<detail::RawId> group_ready(detail::RawId group) override;
  detail::Done remove_group(detail::RawId group) override;
  detail::Answer<PlacementGroup> get_group(std::string_view name,
                                           std::string_view name_space) override;
  detail::Answer<std::vector<PlacementGroupInfo>> groups() override;
  std::vector<Transfer> transfers() override;
  void note_of_group(TransferRecord&& record) override;
  detail::Done wait_tensor_freed(const Tensor& tensor, const detail::Deadline& deadline) override;
  std::shared_ptr<detail::CollectiveDesk> collectives() override { return collectives_; }

  // ---- for the executor's loop -----------------------------------------------------------------
  ProcessEngine& engine() { return *engine_; }
  // A value that came inside a call, or an object that can be read: as user code gets it.
  detail::StoredValue stored_value(ProcessEngine::Lock& lock, const ValueRecord& value);
  detail::StoredValue stored_object(ProcessEngine::Lock& lock, ObjectId object);
  // The bytes of a result of a call of `owner`: inside the record, or written to the store. Tasks
  // behind refs in what goes to the store become the owner's: they are appended to `given`.
  detail::Answer<ValueRecord> store_result(const detail::Outgoing& value, const DirectWish& wish, ObjectId object,
                                   ProcessId owner, NodeId home, HandedOver& given);
  // For the holder of the engine's lock.
  TensorDesk& tensors() { return tensors_; }

  // One fewer of each in user code's hands.
  void release_all(std::span<const detail::ContainedRef> refs) noexcept;

 private:
  std::shared_ptr<TaskContext> task() const;
  // Values too large for a message are put first, and released once the call is submitted.
  struct Puts {
    RecycledVector<ObjectId> objects;  // one for each argument; empty: it goes as it is
    std::int64_t bytes = 0;
  };
  // Waits for max_pending_bytes before it stores anything.
  detail::Done put_large(std::span<const detail::Argument> given, bool block, Puts& puts);
  void submitted(const Puts& puts);
  CopyOnWrite<Arguments> arguments_of(ProcessEngine::Lock& lock, std::span<const detail::Argument> given,
                                      const Puts& puts);
  RefRecords tensors_of(std::span<const detail::RawId> objects);
  bool has_tensors(std::span<const detail::RawId> objects) const;
  TensorDesk::Callbacks desk_callbacks();
  Result<RefRecords> keep_tensors(const detail::Outgoing& value, const DirectWish& wish);
  void release_kept(const RefRecords& kept);
  RefRecords records_of(ProcessEngine::Lock& lock, const std::vector<detail::ContainedRef>& refs,
                                    std::span<const RefRecord> tensors = {});
  detail::Answer<ObjectId> put_value(const detail::Outgoing& value, ObjectId object, const DirectWish& wish = {});
  detail::Answer<ObjectId> put_written(const detail::Outgoing& value, ObjectId object,
                                       std::span<const RefRecord> tensors);
  detail::Answer<ValueRecord> store_written(const detail::Outgoing& value, std::span<const RefRecord> tensors,
                                            ObjectId object, ProcessId owner, NodeId home, HandedOver& given);
  std::shared_ptr<const detail::ErrorRecord> find_tensors(const RefRecords& contained,
                                                          std::vector<detail::ApartTensor>& apart);
  detail::Done wait_for_room(ProcessEngine::Lock& lock, bool block, std::int64_t more = 0);
  detail::Done check_pending_calls(ProcessEngine::Lock& lock, ActorId actor);
  // One more of each in this process's hands; it may not have known them.
  void adopt(ProcessEngine::Lock& lock, const RefRecords& refs);
  enum class Waited : std::uint8_t { ready, timed_out, cancelled };
  // Describes a wait in messages: the public operation, and a reason, which is computed only when it is printed.
  struct WaitFor {
    std::string_view operation;
    std::function<std::string()> reason;
    std::function<bool()> stalled = {};  // asked at intervals; true ends the wait as if it were ready
    std::span<const detail::RawId> needed = {};  // objects without which it does not end; see BlockedOn
  };
  // Waits until `ready`. A cancelled task does not wait: it gets `cancelled` at once, unless `ready` holds.
  // Prints one warning with the reason if the wait lasts longer than `slow_wait_delay`.
  Waited blocking_wait(ProcessEngine::Lock& lock, const WaitFor& what, const detail::Deadline& deadline,
                       const std::function<bool()>& ready);
  std::vector<TensorHolder> holders_of(ProcessEngine::Lock& lock, const detail::TensorStorage& storage);
  std::string why_never_freed(ProcessEngine::Lock& lock, const detail::TensorStorage& storage,
                              const std::vector<TensorHolder>& holders);
  detail::ErrorRecord cancelled_error(std::string_view operation) const;
  std::string why_pending(std::span<const detail::RawId> objects);
  bool is_local(ObjectId object) const;
  detail::Done check_device(const detail::GetRequest& request);
  detail::Answer<std::size_t> get_batch(std::span<const detail::RawId> objects, const detail::GetRequest& request,
                                        std::span<detail::StoredValue> values, bool whole);
  using Pulls = std::vector<TensorDesk::PullPtr>;
  detail::Done pull_tensors(ProcessEngine::Lock& lock, std::span<const detail::RawId> objects,
                            const detail::GetRequest& request, Pulls& pulls,
                            const std::function<detail::Done()>& values_settled);
  DemandClass class_of(const detail::ResourceRequest& resources, std::int32_t max_calls) const;
  CallForm form_of(CallKind kind, const detail::FunctionKey& function, std::size_t num_returns) const;

  // What the calls with one request of one function (of one actor) have in common, worked out once. Options that
  // are written where the call is made are another request each time: those alike have one row as well.
  struct Calls {
    const void* request = nullptr;  // null: of any
    FunctionKey function;
    ActorId actor;
    std::size_t row_hash() const;
    friend bool operator==(const Calls&, const Calls&) = default;
  };
  struct Prepared {
    std::shared_ptr<const void> request;  // kept, so that no other one comes to lie where it is
    CopyOnWrite<CallForm> form;
    DemandClass demand_class;  // of tasks
  };
  template <class Request, class Prepare>
  const Prepared& prepared(std::shared_ptr<const Request> request, const detail::FunctionKey& function,
                           ActorId actor, Prepare prepare);

  detail::Answer<std::string> read_state(const std::string& kind, const std::string& argument);
  collective::DeskOptions desk_options();
  detail::ErrorRecord timeout_error(std::span<const detail::RawId> objects);

  const std::shared_ptr<ProcessEngine> engine_;  // shared with the loop that runs calls
  const RuntimeOptions options_;
  // Guarded by the engine's lock.
  Table<Calls, Prepared> prepared_;
  Table<Calls, std::array<const Prepared*, 4>> last_prepared_;  // of any request: rows of the above, the latest first
  std::int64_t submitting_bytes_ = 0;  // large arguments of calls that are being submitted
  // Threads that wait until nobody reads a tensor; shared with who lets go of one.
  const std::shared_ptr<std::atomic<int>> waits_for_freed_ = std::make_shared<std::atomic<int>>(0);
  TensorDesk tensors_;
  // Shared with operations under way. Any thread.
  const std::shared_ptr<detail::CollectiveDesk> collectives_;
};

}  // namespace mobula::internal::client
