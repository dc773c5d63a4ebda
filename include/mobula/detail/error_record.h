// A failure as it travels between processes, before it becomes one of the exceptions of
// <mobula/errors.h>. Plain values; any thread. What a field does not apply to leaves it empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <mobula/detail/export.h>

namespace mobula::detail {

// One kind per exception class. Values travel: append only.
enum class ErrorKind : std::uint8_t {
  other = 0,
  not_initialized = 1,
  invalid_request = 2,
  not_found = 3,
  pending_limit = 4,
  unschedulable = 5,
  task = 6,
  task_cancelled = 7,
  worker_crashed = 8,
  out_of_memory = 9,
  actor_died = 10,
  actor_unavailable = 11,
  object_lost = 12,
  get_timeout = 13,
  object_store_full = 14,
  transfer = 15,
  tensor_shared = 16,
  placement_group_removed = 17,
  connection = 18,
  permission = 19,
  protocol_mismatch = 20,
  serialization = 21,
  collective = 22,
};

struct ErrorRecord {
  ErrorKind kind = ErrorKind::other;
  std::string message = {};      // what was tried, on what, what was seen, what to do
  std::string field = {};        // invalid_request: which field, and
  std::string rule = {};         // the rule it broke
  std::string resource = {};     // unschedulable: what nobody has
  std::string remote_type = {};  // task: the exception's type there, demangled
  std::string task = {};         // task: the function's name
  std::string task_id = {};
  std::string actor_id = {};
  std::string node_id = {};
  std::int64_t process = 0;                     // the pid there
  int signal = 0;                               // worker_crashed
  int exit_code = 0;                            // worker_crashed
  std::string log_tail = {};                    // worker_crashed: the last lines of its log
  std::string cause = {};                       // object_lost, actor_died
  std::string path = {};                        // transfer
  std::string reason = {};                      // transfer, collective
  std::string exception_type = {};              // a registered exception: its key, and
  std::vector<std::byte> exception_bytes = {};  // its serialised form
  std::vector<ErrorRecord> nested = {};         // at most one: what caused this
  std::vector<int> ranks = {};                  // collective: because of whom
  std::string group = {};                       // collective: its name
};

// For messages: bytes that decode() accepts, or refuses without harm if they come from elsewhere.
MOBULA_API std::vector<std::byte> encode(const ErrorRecord& record);
MOBULA_API std::optional<ErrorRecord> decode_error(std::span<const std::byte> bytes);

// Throws the exception that `record` stands for: one of <mobula/errors.h>, or the registered
// exception of the remote task with the TaskError nested in it.
[[noreturn]] MOBULA_API void throw_error(const ErrorRecord& record);

// What an operation without a result gives back: nothing when it was done.
using Done = std::optional<ErrorRecord>;

inline void require(const Done& done) {
  if (done) throw_error(*done);
}

// A result or the failure. Failures stay values until they reach the user's call.
template <class T>
class [[nodiscard]] Answer {
 public:
  Answer(T value) : state_(std::in_place_index<0>, std::move(value)) {}        // NOLINT: implicit
  Answer(ErrorRecord why) : state_(std::in_place_index<1>, std::move(why)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  const ErrorRecord& error() const { return *std::get_if<1>(&state_); }
  const T& value() const {
    if (!ok()) throw_error(error());
    return *std::get_if<0>(&state_);
  }
  T take() && {
    if (!ok()) throw_error(error());
    return std::move(*std::get_if<0>(&state_));
  }

 private:
  std::variant<T, ErrorRecord> state_;
};

}  // namespace mobula::detail
