// The interface behind the templates: one Runtime per process, installed by `init` and removed when
// the cluster object ends. Templates convert types to bytes; the runtime handles bytes and ids.
// Thread: any.
// Errors: records, never exceptions.
#pragma once

#include <cstdint>
#include <functional>
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

class Entry;  // <mobula/detail/registry.h>

// Identifies code in every process of a program: an image (the executable or a library) and an
// offset from its load address.
struct FunctionKey {
  RawId image;
  std::uint64_t offset = 0;

  // Explicit for the front end of nvcc.
  friend bool operator==(const FunctionKey&, const FunctionKey&) = default;
  friend auto operator<=>(const FunctionKey&, const FunctionKey&) = default;
};

// A value, or the object that will have it (`value` is null). The runtime reads the value before
// the call returns, and holds the object until the callee no longer needs it.
struct Argument {
  const Outgoing* value = nullptr;
  RawId object = {};  // only if `value` is null
};

struct TaskSubmission {
  FunctionKey function = {};
  std::string_view function_name = {};  // for messages
  std::shared_ptr<const TaskRequest> request = {};
  std::span<const Argument> arguments = {};
  std::span<RawId> results = {};  // receives the ids of the results
  std::string_view types = {};    // untyped calls: not empty, with the language of the caller
  bool streaming = false;         // the only result is the first position of a stream
  std::string_view program = {};  // untyped calls: name of the job whose program has the function
};

struct ActorCreation {
  FunctionKey constructor = {};
  std::string_view class_name = {};  // also compared by get_actor
  std::shared_ptr<const ActorRequest> request = {};
  std::span<const Argument> arguments = {};
  std::string_view constructor_name = {};  // untyped calls
  std::string_view types = {};             // as in TaskSubmission
};

struct ActorCall {
  RawId actor = {};
  FunctionKey method = {};
  // null and no types: the argument and the result of the method are JSON
  const Entry* entry = nullptr;
  std::string_view method_name = {};
  std::shared_ptr<const CallRequest> request = {};
  std::span<const Argument> arguments = {};
  std::span<RawId> results = {};  // receives the ids of the results
  std::string_view types = {};    // as in TaskSubmission
  bool streaming = false;         // untyped calls: as in TaskSubmission
};

// The item at a position of a stream, and the next position. Each id carries one count of a ref.
struct NextItem {
  bool ended = false;  // the stream has no further item; both ids are empty
  RawId item = {};
  RawId next = {};
};

struct NamedActor {
  RawId actor;
  std::string class_name;
};

// Facts about the running task; in a driver, the fields of the job alone. Immutable.
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

// Internal to the library.
class CollectiveGroups;
class CompletionSource;

class MOBULA_API Runtime {
 public:
  Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  virtual ~Runtime();

  // Each returned id carries one count, which the caller releases.
  virtual Done submit_task(const TaskSubmission& submission) = 0;
  virtual Answer<RawId> create_actor(const ActorCreation& creation) = 0;
  virtual Done call_actor(const ActorCall& call) = 0;
  virtual Answer<RawId> put(const Outgoing& value, const PutRequest& request) = 0;

  // Writes all values, in order, to `values`, which has one element per object. Each is a value or
  // an error. Fails as a whole at the deadline (get_timeout).
  virtual Done get(std::span<const RawId> objects, const GetRequest& request,
                   std::span<StoredValue> values) = 0;
  // Returns when `num_returns` objects are ready, or at the deadline, with one flag per object.
  virtual Answer<std::vector<bool>> wait(std::span<const RawId> objects, std::size_t num_returns,
                                         const Deadline& deadline, bool fetch_local) = 0;
  // Waits until the position of a stream has an item or is the end. Fails with the error that ended
  // the stream, or at the deadline (get_timeout).
  virtual Answer<NextItem> next_item(RawId position, const Deadline& deadline);
  virtual Done cancel(RawId object, bool force, bool recursive) = 0;
  virtual Done kill(RawId actor, bool no_restart) = 0;

  // Add and remove one count of a ref or handle of this process. Both are cheap.
  virtual void retain(ContainedRef ref) noexcept = 0;
  virtual void release(ContainedRef ref) noexcept = 0;

  // Returns the context of the calling thread's task.
  virtual std::shared_ptr<const ContextRecord> context() = 0;
  virtual bool cancelled() = 0;
  virtual void* stream() = 0;
  // Returns the actor whose method the calling thread runs. The id carries a count.
  virtual Answer<NamedActor> current_actor() {
    return ErrorRecord{.kind = ErrorKind::invalid_request,
                       .message = "current_actor() is for methods of actors"};
  }
  // Waits until `ready`, and runs the calls of this asynchronous actor that have no concurrency
  // group on the calling thread. Evaluates `ready` under a lock, at the beginning and after each
  // call. Returns false if the thread may not run them, or when the process exits.
  virtual bool run_calls_until(const std::function<bool()>& /*ready*/) { return false; }
  // Requests the end of the actor after the running call. Fails outside an actor.
  virtual Done exit_actor() = 0;

  virtual Answer<std::vector<Node>> nodes() = 0;
  virtual Answer<std::map<std::string, double>> cluster_resources() = 0;
  virtual Answer<std::map<std::string, double>> available_resources() = 0;
  // Failure: not_found. The id carries a count.
  virtual Answer<NamedActor> get_actor(std::string_view name, std::string_view name_space) = 0;
  virtual Answer<std::vector<std::string>> list_named_actors() = 0;

  virtual Answer<RawId> create_group(const GroupRequest& request) = 0;
  // Returns an object that becomes true when the group is placed; the id carries a count.
  virtual Answer<RawId> group_ready(RawId group) = 0;
  virtual Done remove_group(RawId group) = 0;
  // Failure: not_found.
  virtual Answer<PlacementGroup> get_group(std::string_view name, std::string_view name_space) = 0;
  virtual Answer<std::vector<PlacementGroupInfo>> groups() = 0;
  virtual std::vector<Transfer> transfers() = 0;
  virtual Done wait_tensor_freed(const Tensor& tensor, const Deadline& deadline) = 0;
  // Returns the collective groups of this process, or null if it can have none.
  virtual std::shared_ptr<CollectiveGroups> collectives() { return nullptr; }
  // Returns the source of reports about ready objects, or null if the runtime does not report.
  virtual std::shared_ptr<CompletionSource> completion_source() { return nullptr; }
  // Logs the bytes that this process moved in an operation of a collective group.
  virtual void note_of_group(internal::transfer::TransferRecord&&) {}
  // Reads the values of the first objects, as many as fit into the node's store together, at least
  // one. Returns their number.
  virtual Answer<std::size_t> get_some(std::span<const RawId> objects, const GetRequest& request,
                                       std::span<StoredValue> values) {
    if (auto failed = get(objects, request, values)) return *std::move(failed);
    return objects.size();
  }
  // Sends the progress of a Tune experiment, a JSON object, to the head for its page.
  virtual Done report_experiment(std::string_view /*report*/) { return {}; }
};

// Throws NotInitializedError if no runtime is installed.
MOBULA_API std::shared_ptr<Runtime> runtime();
// Reports whether this process was forked from a process with a runtime and has not called exec
// since.
MOBULA_API bool in_forked_child();
// Throws NotInitializedError if in_forked_child().
MOBULA_API void refuse_forked_child();
// Installs a runtime; null removes it. Remaining refs then belong to no runtime.
MOBULA_API void install_runtime(std::shared_ptr<Runtime> runtime);

// Holds one count of an object or actor, shared by the copies of a ref or handle in this process.
class MOBULA_API Anchor {
 public:
  // Takes ownership of a count that the runtime returned.
  static std::shared_ptr<const Anchor> adopt(const std::shared_ptr<Runtime>& runtime,
                                             ContainedRef ref);
  // Acquires a new count, for refs found in values.
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

// Returns the id of a ref or handle, for a call through `runtime`. InvalidRequestError for an empty
// one, and for one of an earlier cluster.
MOBULA_API RawId require_id(const Anchor* anchor, const std::shared_ptr<Runtime>& runtime);

}  // namespace mobula::detail
