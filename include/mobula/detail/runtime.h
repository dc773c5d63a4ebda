// What stands behind the templates: one Runtime per process, installed by init and taken away when
// the cluster object ends. Every function may be called from any thread and throws nothing;
// failures are records. Templates turn types into bytes before and after; the runtime sees only
// bytes and ids.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mobula/detail/error_record.h>
#include <mobula/detail/export.h>
#include <mobula/detail/raw_id.h>
#include <mobula/detail/request.h>
#include <mobula/detail/value.h>
#include <mobula/node.h>
#include <mobula/transfer.h>

namespace mobula::internal::transfer {
struct TransferRecord;
}

namespace mobula::detail {

// Which code, the same in every process of a program: an image (the executable or a library) and an
// offset from where it is loaded.
struct FunctionKey {
  RawId image;
  std::uint64_t offset = 0;

  friend bool operator==(const FunctionKey&, const FunctionKey&) = default;  // explicit for the front end of nvcc
  friend auto operator<=>(const FunctionKey&, const FunctionKey&) = default;
};

// A value, or the object that will have it: then `value` is null. The runtime reads the value
// before the call returns, and holds the object until the callee is done with it.
struct Argument {
  const Outgoing* value = nullptr;
  RawId object = {};
};

struct TaskSubmission {
  FunctionKey function = {};
  std::string_view function_name = {};  // for people
  std::shared_ptr<const TaskRequest> request = {};
  std::span<const Argument> arguments = {};
  std::span<RawId> results = {};  // where the ids of its results go: as many as it has
};

struct ActorCreation {
  FunctionKey constructor = {};
  std::string_view class_name = {};  // also what get_actor compares
  std::shared_ptr<const ActorRequest> request = {};
  std::span<const Argument> arguments = {};
};

struct ActorCall {
  RawId actor = {};
  FunctionKey method = {};
  std::string_view method_name = {};
  std::shared_ptr<const CallRequest> request = {};
  std::span<const Argument> arguments = {};
  std::span<RawId> results = {};  // where the ids of its results go: as many as it has
};

struct NamedActor {
  RawId actor;
  std::string class_name;
};

// What the running task is told about itself; in a driver, the job alone. Never changes.
struct ContextRecord {
  std::string job_id = {};
  std::string task_id = {};
  std::string actor_id = {};
  std::string node_id = {};
  int attempt = 0;
  bool was_restarted = false;
  std::string name_space = {};
  std::uint64_t seed = 0;
  std::vector<std::string> gpu_ids = {};
  std::map<std::string, std::vector<std::string>> resource_ids = {};
  std::map<std::string, double> assigned_resources = {};
  std::map<std::string, std::string> accelerator_env = {};
};

// Of the library's own code.
class CollectiveDesk;

class MOBULA_API Runtime {
 public:
  Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  virtual ~Runtime();

  // Every id that comes back carries one count, which the caller releases.
  virtual Done submit_task(const TaskSubmission& submission) = 0;
  virtual Answer<RawId> create_actor(const ActorCreation& creation) = 0;
  virtual Done call_actor(const ActorCall& call) = 0;
  virtual Answer<RawId> put(const Outgoing& value, const PutRequest& request) = 0;

  // All of them, in order, into `values`, which are as many; each is a value or has an error of its own.
  // Fails as a whole when the deadline passes (get_timeout).
  virtual Done get(std::span<const RawId> objects, const GetRequest& request,
                   std::span<StoredValue> values) = 0;
  // Returns when `num_returns` are ready or at the deadline; for each whether it is ready.
  virtual Answer<std::vector<bool>> wait(std::span<const RawId> objects, std::size_t num_returns,
                                         const Deadline& deadline, bool fetch_local) = 0;
  virtual Done cancel(RawId object, bool force, bool recursive) = 0;
  virtual Done kill(RawId actor, bool no_restart) = 0;

  // Counts of refs and handles of this process. Cheap.
  virtual void retain(ContainedRef ref) noexcept = 0;
  virtual void release(ContainedRef ref) noexcept = 0;

  // Of the calling thread's task.
  virtual std::shared_ptr<const ContextRecord> context() = 0;
  virtual bool cancelled() = 0;
  virtual void* stream() = 0;
  // Notes that the actor ends after the running call. Fails outside an actor.
  virtual Done exit_actor() = 0;

  virtual Answer<std::vector<Node>> nodes() = 0;
  virtual Answer<std::map<std::string, double>> cluster_resources() = 0;
  virtual Answer<std::map<std::string, double>> available_resources() = 0;
  // Failure: not_found. The id carries a count.
  virtual Answer<NamedActor> get_actor(std::string_view name, std::string_view name_space) = 0;
  virtual Answer<std::vector<std::string>> list_named_actors() = 0;

  virtual Answer<RawId> create_group(const GroupRequest& request) = 0;
  // An object that is true when the group has its places; the id carries a count.
  virtual Answer<RawId> group_ready(RawId group) = 0;
  virtual Done remove_group(RawId group) = 0;
  // Failure: not_found.
  virtual Answer<PlacementGroup> get_group(std::string_view name, std::string_view name_space) = 0;
  virtual Answer<std::vector<PlacementGroupInfo>> groups() = 0;
  virtual std::vector<Transfer> transfers() = 0;
  virtual Done wait_tensor_freed(const Tensor& tensor, const Deadline& deadline) = 0;
  // The collective groups that this process is in; null where it is in none and never will be.
  virtual std::shared_ptr<CollectiveDesk> collectives() { return nullptr; }
  // For the log of transfers: what this process moved in an operation of a group.
  virtual void note_of_group(internal::transfer::TransferRecord&&) {}
  // As get, of the first objects, at least one: as many as fit into the node's store together. Returns how many.
  virtual Answer<std::size_t> get_some(std::span<const RawId> objects, const GetRequest& request,
                                       std::span<StoredValue> values) {
    if (auto failed = get(objects, request, values)) return *std::move(failed);
    return objects.size();
  }
};

// Throws NotInitializedError where none is installed.
MOBULA_API std::shared_ptr<Runtime> runtime();
// True in a process that was forked from a process with a runtime and has not called exec since.
MOBULA_API bool in_forked_child();
// NotInitializedError in such a process.
MOBULA_API void refuse_forked_child();
// Null takes it away; refs that are left then belong to no one.
MOBULA_API void install_runtime(std::shared_ptr<Runtime> runtime);

// Holds one count of an object or actor, shared by the copies of a ref or handle in this process.
class MOBULA_API Anchor {
 public:
  // Takes over a count that the runtime gave.
  static std::shared_ptr<const Anchor> adopt(const std::shared_ptr<Runtime>& runtime,
                                             ContainedRef ref);
  // Takes a count of its own: for refs found in values.
  static std::shared_ptr<const Anchor> retain(ContainedRef ref);

  Anchor(const std::shared_ptr<Runtime>& runtime, ContainedRef ref)
      : runtime_(runtime), ref_(ref) {}
  Anchor(const Anchor&) = delete;
  Anchor& operator=(const Anchor&) = delete;
  ~Anchor();

  const ContainedRef& ref() const { return ref_; }
  bool belongs_to(const std::shared_ptr<Runtime>& runtime) const;

 private:
  std::weak_ptr<Runtime> runtime_;
  ContainedRef ref_;
};

// The id behind a ref or handle, for a call through `runtime`. Throws InvalidRequestError for an
// empty one, and for one of an earlier cluster.
MOBULA_API RawId require_id(const Anchor* anchor, const std::shared_ptr<Runtime>& runtime);

}  // namespace mobula::detail
