// A failure as it travels between processes, before it becomes one of the exceptions of errors.h.
// Thread: owner (plain values).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <mobula/detail/error_kind.h>
#include <mobula/detail/export.h>

namespace mobula::detail {

struct ErrorRecord {
  ErrorKind kind = ErrorKind::other;
  std::string message = {};      // operation, object, fault, remedy
  std::string field = {};        // invalid_request: name of the field
  std::string rule = {};         // invalid_request: rule that the field breaks
  std::string resource = {};     // unschedulable: missing resource
  std::string remote_type = {};  // task: demangled type of the exception
  std::string task = {};         // task: name of the function
  std::string task_id = {};
  std::string actor_id = {};
  std::string node_id = {};
  std::int64_t process = 0;                     // process id
  int signal = 0;                               // worker_crashed
  int exit_code = 0;                            // worker_crashed
  std::string log_tail = {};                    // worker_crashed: last lines of the log
  std::string cause = {};                       // object_lost, actor_died
  std::string path = {};                        // transfer
  std::string reason = {};                      // transfer, collective
  std::string exception_type = {};              // key of a registered exception
  std::vector<std::byte> exception_bytes = {};  // its serialized form
  std::vector<ErrorRecord> nested = {};         // cause; at most one
  std::vector<int> ranks = {};                  // collective: responsible ranks
  std::string group = {};                       // collective: name of the group
};

// Encodes and decodes records for messages. `decode_error` accepts bytes from untrusted senders.
MOBULA_API std::vector<std::byte> encode(const ErrorRecord& record);
MOBULA_API std::optional<ErrorRecord> decode_error(std::span<const std::byte> bytes);

// Throws the exception of `record`: a class of errors.h, or the registered exception of the remote
// task with the TaskError nested.
[[noreturn]] MOBULA_API void throw_error(const ErrorRecord& record);

// The result of an operation without a value: empty on success.
using Done = std::optional<ErrorRecord>;

inline void require(const Done& done) {
  if (done) throw_error(*done);
}

// A result or a failure. Failures stay values until they reach the call of the user.
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
