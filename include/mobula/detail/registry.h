// The table of what this process can run: for every task<f>, actor<C> and method that its program
// names, an Entry with internal address, found again in other processes of the program by image and
// offset. The entries are data, so that folding of identical code cannot make two of them one. The
// table itself lives in the library, once per process. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
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

// Where results go. Called once for each result, in order, from the thread that runs the call.
class MOBULA_API ResultSink {
 public:
  virtual ~ResultSink();
  // Stores the value. A failure ends the call with that error.
  virtual Done accept(std::size_t index, const Outgoing& value) = 0;
};

// One call of user code.
struct Invocation {
  void* self = nullptr;                         // the actor, for methods
  std::span<const StoredValue> arguments = {};  // every ref argument is resolved
  ResultSink* results = nullptr;                // null for constructors
  std::shared_ptr<void>* created = nullptr;     // for constructors
};

// How it ended. Without an error, all results were accepted (or the actor was created).
struct Outcome {
  std::optional<ErrorRecord> error = {};
  bool exit_actor = false;  // user code called exit_actor(); there is no result
};

// Catches everything that user code throws.
using Invoker = Outcome (*)(const Invocation& call);

enum class EntryKind : std::uint8_t { task, constructor, method };

struct CallDescription;  // <mobula/detail/describe.h>

class MOBULA_API Entry {
 public:
  // Both names must live for ever. `class_tag` is one address per class of actors, null for tasks:
  // a method may only be called on an actor made by a constructor with the same tag.
  Entry(EntryKind kind, std::string_view name, Invoker invoker, int parameters, int results,
        const void* class_tag = nullptr, std::string_view class_name = {},
        const CallDescription* description = nullptr);
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ~Entry();

  EntryKind kind() const { return kind_; }
  std::string_view name() const { return name_; }
  std::string_view class_name() const { return class_name_; }
  const void* class_tag() const { return class_tag_; }
  int parameters() const { return parameters_; }
  int results() const { return results_; }
  // Null where nothing is known of its types.
  const CallDescription* description() const { return description_; }

  // Refuses a call that does not fit the entry (invalid_request) before it touches anything.
  Outcome invoke(const Invocation& call) const;

 private:
  friend class Registry;

  EntryKind kind_;
  int parameters_;
  int results_;
  std::string_view name_;
  std::string_view class_name_;
  const void* class_tag_;
  Invoker invoker_;
  const CallDescription* description_;
  mutable std::atomic<bool> resolved_{false};
  mutable FunctionKey key_;  // valid once resolved_
};

// An image that has entries. `path` is empty for the executable.
struct Image {
  std::uintptr_t base = 0;
  std::string path;
  RawId id;
};

class MOBULA_API Registry {
 public:
  static Registry& instance();

  // Null for what no entry of this process has.
  const Entry* find(const FunctionKey& key);
  // Known before the runtime has named images: the executable's is empty, a library's is derived
  // from its file name.
  FunctionKey key_of(const Entry& entry);
  std::vector<const Entry*> entries();

  // To give images ids by content, before the first call.
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

// Runs `body` and turns what it throws into an Outcome.
MOBULA_API Outcome guarded(const Invocation& call, void (*body)(const Invocation&));
// Stores a result, or throws so that guarded() reports the sink's failure.
MOBULA_API void give_result(const Invocation& call, std::size_t index, const Outgoing& value);

}  // namespace mobula::detail
