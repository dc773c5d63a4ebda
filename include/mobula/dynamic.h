// Calls whose types are known only at run time, for bindings of other languages.
// Thread: any, except where a function states its thread.
// Errors: as in the typed API.
// Not: a stable interface. A binding and its library come from one build, which init checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <mobula/mobula.h>

namespace mobula::internal::client {
class HostCall;
}

namespace mobula::dynamic {

// The kind of a call.
enum class Kind : std::uint8_t {
  task,         // a function
  constructor,  // creates an actor
  method        // call of an actor
};

// Names of a call in logs, lists, explain, and get_actor. The strings are copied.
struct Callable {
  std::string_view name = {};        // function, constructor, or method
  std::string_view class_name = {};  // constructors: the class. Methods: set in a host
  Kind kind = Kind::task;            // set in a host; submit, create, and call ignore it
  // Tasks: the function of another program, by the name of the job of a driver that runs it or that
  // has left detached actors. The name is a whole one, or the part after the last "::". Arguments
  // and results are neutral values (<mobula/neutral.h>), as in calls of actors whose class is C++.
  // Empty: this program.
  std::string_view program = {};
  // Constructors: one thread runs all calls of the actor, for hosts that complete calls later.
  // max_concurrency limits the incomplete calls, as always.
  bool asynchronous = false;
};

// A value to be written: bytes, buffers, refs, handles, and tensors.
class MOBULA_API Payload final : public detail::Outgoing {
 public:
  // The parts of a value. Readers get them in the same order.
  struct Parts {
    std::span<const std::byte> body = {};                  // bytes of any alignment
    std::vector<std::span<const std::byte>> buffers = {};  // aligned to 64 bytes for readers
    std::vector<AnyRef> refs = {};                         // counted while the value exists
    std::vector<AnyActor> actors = {};                     // counted while the value exists
    std::vector<Tensor> tensors = {};                      // elements may stay in their process
    std::shared_ptr<const void> owner = {};  // of body and buffers; released on any thread
  };

  // `format` names the encoding ("python/1", "neutral/1"), at most 255 bytes. Readers reject an
  // unknown format. InvalidRequestError for an empty ref or handle.
  Payload(std::string_view format, Parts parts);

 private:
  // Runs on any thread, without a lock of the host language.
  void fill(Writer& out) const override;

  std::string format_;
  Parts parts_;
};

// A stored value, read in place.
class MOBULA_API StoredPayload {
 public:
  // Creates a value without a format, which has no parts.
  StoredPayload() = default;
  // For the library. `stored` is a detail::StoredValue without an error.
  explicit StoredPayload(std::shared_ptr<const detail::StoredValue> stored);

  // Returns the name of the encoding; "c++" for a value of the typed API.
  std::string_view format() const;
  // Returns the parts, whose owner keeps the stored bytes. Refs and handles are counted again.
  // SerializationError for corrupt bytes and for a value of the typed API.
  Payload::Parts parts() const;
  // Returns the parts. SerializationError that names both formats if the value has another one.
  Payload::Parts parts(std::string_view expected) const;

 private:
  std::shared_ptr<const detail::StoredValue> stored_;
};

// An argument: a value, or a ref that is resolved before the start of the call.
struct Argument {
  const Payload* value = nullptr;  // valid during the call of submit, create, or call
  const AnyRef* ref = nullptr;     // used if `value` is null
};

// The program that makes a call, for a host that serves several languages.
struct Caller {
  std::string_view language = {};  // its Host::language; "C++" without a host
  std::string_view program = {};   // name of its executable
  // The caller named this program (Callable::program): arguments are neutral values, and results
  // must be. For methods, the language decides.
  bool by_program = false;
};

// The results of a call.
struct Returns {
  int count = 1;           // number of refs, at least 0
  bool streaming = false;  // any number of items. The only ref is the first position, for `next`
};

// Submits a task of the host in an executor and returns refs to its results.
MOBULA_API std::vector<AnyRef> submit(const Callable& task, const TaskOptions& options,
                                      std::span<const Argument> arguments, Returns returns = {});
// Creates an actor of the host.
MOBULA_API AnyActor create(const Callable& constructor, const ActorOptions& options,
                           std::span<const Argument> arguments);
// Calls a method of an actor of the host and returns refs to its results.
MOBULA_API std::vector<AnyRef> call(const AnyActor& actor, const Callable& method,
                                    const CallOptions& options, std::span<const Argument> arguments,
                                    Returns returns = {});
// One step of a stream. The end has neither ref.
struct StreamItem {
  AnyRef item = {};  // the item at a position
  AnyRef next = {};  // the position behind it
};
// An item, or the error that ended the stream.
using Step = std::variant<StreamItem, detail::ErrorRecord>;
// Waits for the item at a position of a stream, which is a ref from `submit`, `call`, or `next`. A
// position can be read again while a ref to it exists. GetTimeoutError after a timeout.
MOBULA_API Step next(const AnyRef& position, const NextOptions& options = {});
// Stores a value.
MOBULA_API AnyRef put(const Payload& value, const PutOptions& options = {});
// One value or error per ref.
using Fetched = std::variant<StoredPayload, detail::ErrorRecord>;
// Waits for all values and returns them in the order of the refs. GetTimeoutError after a timeout.
MOBULA_API std::vector<Fetched> get(std::span<const AnyRef> refs, const GetOptions& options = {});
// Returns the indices of the ready refs, in ascending order.
MOBULA_API std::vector<std::size_t> wait(std::span<const AnyRef> refs,
                                         const WaitOptions& options = {});
// Cancels the task that computes the object, as mobula::cancel does. Host::cancel is called.
MOBULA_API void cancel(const AnyRef& ref, const CancelOptions& options = {});
// Terminates the actor, as mobula::kill does.
MOBULA_API void kill(const AnyActor& actor, const KillOptions& options = {});
// Returns a handle of a named actor of this class.
MOBULA_API AnyActor get_actor(const std::string& name, const std::string& name_space,
                              std::string_view class_name);

// ---- in an executor -----------------------------------------------------------------------------

// The failure of a call.
struct Failure {
  detail::ErrorRecord record = {};  // the kind `other` becomes `task`
  bool may_retry = true;            // false: retry_exceptions does not apply
};

// Number of a call, unique in its process.
using CallId = std::uint64_t;

// One call of user code. Movable. Any thread may complete it, during Host::run or later; a
// constructor keeps its runner until then. The first completion decides; later ones are logged and
// ignored.
class MOBULA_API Call {
 public:
  // For the library.
  explicit Call(std::shared_ptr<internal::client::HostCall> call) noexcept;
  // Moves the call. The other one may only be destroyed or assigned to.
  Call(Call&&) noexcept;
  // Fails this call if it is incomplete, and moves the other one.
  Call& operator=(Call&&) noexcept;
  // Fails an incomplete call with a TaskError that states this.
  ~Call();

  // Returns the number that Host::cancel gets.
  CallId id() const;
  // Returns the names and the kind. They are valid while the call exists.
  const Callable& callable() const;
  // Returns the program of the caller. The names are valid while the call exists.
  Caller caller() const;
  // Returns the arguments, all of which are values.
  std::span<const StoredPayload> arguments() const;
  // Returns the actor of a method.
  void* self() const;
  // Returns the number of results to give.
  Returns returns() const;
  // Returns the facts that current() reports on the thread of Host::run.
  std::shared_ptr<const detail::ContextRecord> context() const;
  // Reports whether the call was cancelled. A host asks after it has registered the call, because
  // Host::cancel may have been called before.
  bool cancelled() const;

  // Completes a constructor: `done` follows.
  void created(std::shared_ptr<void> actor);
  // Stores result `index`, each once and in any order. Items of a stream are given in order, from
  // one thread at a time: the call blocks while the consumers are too far behind, and keeps its
  // runner until it is complete. A value that cannot be stored fails the call. Returns false if the
  // call is complete, so that a cancelled stream ends. InvalidRequestError for an index that is
  // given already, does not exist, or is not the next item.
  bool give(std::size_t index, const Payload& value);
  // Completes the call with an error.
  void fail(Failure failure);
  // Completes the call and ends the actor after it.
  void exit_actor();
  // Completes the call. It fails with a TaskError if a result is missing.
  void done();

 private:
  void drop() noexcept;

  std::shared_ptr<internal::client::HostCall> call_;  // shared with the runner
};

// The other language in this process. Set before init, once.
struct Host {
  // Runs a call, on a runner. The first runner is the main thread.
  std::function<void(Call)> run = {};
  // Requests the end of a running call, at most once per call, on the thread that runs the event
  // loop and without a lock. It must not block. The call may complete at the same time.
  std::function<void(CallId)> cancel = {};
  std::function<void()> before_fork = {};  // this one and the next two: on the forking thread
  std::function<void()> after_fork_in_parent = {};  // also after a fork that failed
  std::function<void()> after_fork_in_child = {};   // in the new executor
  // The slot, its environment, and its device masks are known; on the main thread of an executor.
  std::function<void()> assigned = {};
  // Before a planned exit, on the main thread of an executor, for at most 0.5 s.
  std::function<void()> leave = {};
  std::string language = {};  // in error messages and in status: "python 3.12 cp312"
};

// The program of the executors of a driver, in place of its own command line and files.
struct Interpreter {
  std::vector<std::string> command = {};  // argv of a fork server or an executor
  std::string environment_key = {};       // equal keys share fork servers
  // Variables of fork servers and their executors, unless the job or the call sets them.
  std::map<std::string, std::string> fork_server_env = {};
};

}  // namespace mobula::dynamic

namespace mobula::detail {

// The sizes of the types above, by which the library recognizes a binding of another build.
inline constexpr std::uint64_t dynamic_layout = [] {
  std::uint64_t state = mix(mix_start, "mobula/dynamic.h 2");
  for (const std::size_t size :
       {sizeof(dynamic::Callable), sizeof(dynamic::Payload), sizeof(dynamic::Call),
        sizeof(dynamic::Failure), sizeof(dynamic::Host), sizeof(dynamic::Interpreter),
        sizeof(InitOptions), sizeof(TaskOptions), sizeof(ActorOptions), sizeof(CallOptions)}) {
    state = mix(state, size);
  }
  return state;
}();

// Sets the host of this process. Throws InvalidRequestError for another layout.
MOBULA_API void set_host(dynamic::Host host, std::uint64_t layout);
// Throws InvalidRequestError for another layout.
MOBULA_API Cluster init(const InitOptions& options, const dynamic::Interpreter& interpreter,
                        std::uint64_t layout);

}  // namespace mobula::detail

namespace mobula::dynamic {

// Sets the host of this process. InvalidRequestError if one is set, or if it cannot run calls.
inline void set_host(Host host) { detail::set_host(std::move(host), detail::dynamic_layout); }

// As mobula::init, but executors run `interpreter.command`. No files are shipped: the command must
// start on every node, otherwise the node cannot run tasks of this job. In a process that the
// command has started, it does not return.
inline Cluster init(const InitOptions& options, const Interpreter& interpreter) {
  return detail::init(options, interpreter, detail::dynamic_layout);
}

}  // namespace mobula::dynamic
