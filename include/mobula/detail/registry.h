// The table of functions that this process can run. Each task<f>, actor<C>, and method that the
// program names has an Entry; other processes of the program find it by image and offset.
// Thread: any.
// Owner: the library; one table per process.
// Not: code addresses. Entries are data, so that folding of identical code cannot merge two of
// them.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <mobula/detail/error_record.h>
#include <mobula/detail/export.h>
#include <mobula/detail/runtime.h>
#include <mobula/detail/value.h>

namespace mobula::detail {

class DeferredResults;  // <mobula/detail/deferred_results.h>

// Receives results. Called once per result, in order, on the thread that runs the call.
class MOBULA_API ResultSink {
 public:
  virtual ~ResultSink();
  // Stores the value. A failure ends the call with that error. In a streaming call it sends item
  // `index`, and blocks while the consumers are too far behind.
  virtual Done accept(std::size_t index, const Outgoing& value) = 0;
  // The call is answered through the returned object, which keeps the results accepted before. The
  // outcome of its user code is ignored unless it is an error. At most once. Null: not supported.
  virtual std::shared_ptr<DeferredResults> defer() { return nullptr; }
};

// One call of user code.
struct Invocation {
  void* self = nullptr;                         // the actor, for methods
  std::span<const StoredValue> arguments = {};  // values; all refs are resolved
  ResultSink* results = nullptr;                // null for constructors
  std::shared_ptr<void>* created = nullptr;     // for constructors
};

// The end of a call. Without an error, all results were accepted, or the actor was created.
struct Outcome {
  std::optional<ErrorRecord> error = {};
  bool exit_actor = false;         // user code called exit_actor; no result
  bool no_retry = false;           // the error is final: retry_exceptions does not apply
  std::exception_ptr thrown = {};  // the exception of user code behind the error
};

// Runs user code and catches all its exceptions.
using Invoker = Outcome (*)(const Invocation& call);

enum class EntryKind : std::uint8_t { task, constructor, method };

struct CallDescription;  // <mobula/detail/describe.h>

// The members of an entry. Both names have static storage.
struct EntryMembers {
  EntryKind kind = EntryKind::task;
  std::string_view name = {};
  Invoker invoker = nullptr;
  int parameters = 0;  // count, or Entry::any_number
  int results = 0;     // count, or Entry::any_number
  // One address per actor class, null for tasks. A method may only be called on an actor that a
  // constructor with the same tag created.
  const void* class_tag = nullptr;
  std::string_view class_name = {};
  const CallDescription* description = nullptr;  // null: types are unknown
};

class MOBULA_API Entry {
 public:
  // Count of parameters or results of an untyped call, which has a host (<mobula/dynamic.h>).
  static constexpr int any_number = -1;

  explicit Entry(const EntryMembers& members);
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ~Entry();

  EntryKind kind() const { return members_.kind; }
  std::string_view name() const { return members_.name; }
  std::string_view class_name() const { return members_.class_name; }
  const void* class_tag() const { return members_.class_tag; }
  int parameters() const { return members_.parameters; }
  int results() const { return members_.results; }
  bool is_untyped() const { return members_.parameters == any_number; }
  // Returns the types of the call, or null if they are unknown.
  const CallDescription* description() const { return members_.description; }
  // Reports whether a call gives any number of items while it runs.
  bool is_streaming() const;

  // Makes the compiler instantiate the entry.
  void keep() const {}

  // Returns invalid_request if the call does not match the entry.
  std::optional<ErrorRecord> mismatch(const Invocation& call) const;
  // Runs a call that matches the entry.
  Invoker invoker() const { return members_.invoker; }
  // Runs the call. Returns the mismatch, before any effect, if one exists.
  Outcome invoke(const Invocation& call) const;

 private:
  friend class Registry;

  const EntryMembers members_;
  mutable std::atomic<bool> resolved_{false};
  mutable FunctionKey key_;  // valid if resolved_
};

// An image with entries. `path` is empty for the executable.
struct Image {
  std::uintptr_t base = 0;
  std::string path;
  RawId id;
};

class MOBULA_API Registry {
 public:
  static Registry& instance();

  // Returns the entry, or null if this process has none with this key.
  const Entry* find(const FunctionKey& key);
  // Valid before the runtime has named images: the key of the executable is empty, and the key of a
  // library is derived from its file name.
  FunctionKey key_of(const Entry& entry);
  std::vector<const Entry*> entries();
  // Makes `find` return the entry for a key of another program, unless many were added.
  static constexpr std::size_t most_added_keys = 4'096;
  void add_key(const FunctionKey& key, const Entry& entry);

  // Lists and names images, so that the runtime can set ids by content before the first call.
  std::vector<Image> images();
  void name_image(std::uintptr_t base, RawId id);

 private:
  friend class Entry;
  struct Table;

  Registry();
  void add(Entry& entry);
  void remove(Entry& entry);
  void resolve_all();

  Table* table_;
};

// The outcome of a call of a method that this program only declares.
MOBULA_API Outcome only_declared(std::string_view method);
// Runs `body` and converts its exceptions to an Outcome.
MOBULA_API Outcome guarded(const Invocation& call, void (*body)(const Invocation&));
// Converts the exception that is being handled.
MOBULA_API Outcome outcome_of_exception();
// Stores a result, or throws so that guarded() reports the failure of the sink.
MOBULA_API void give_result(const Invocation& call, std::size_t index, const Outgoing& value);
// The same for a deferred call.
MOBULA_API void give_deferred(DeferredResults& call, std::size_t index, const Outgoing& value);
// Defers the call, or throws InvalidRequestError if its caller does not support that.
MOBULA_API std::shared_ptr<DeferredResults> defer_call(const Invocation& call);

}  // namespace mobula::detail
