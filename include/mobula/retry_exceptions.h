// The exceptions of user code that are retried: all, none, or those of some types.
//
//   mobula::task<f>.options({.retry_exceptions = mobula::retry_on<TimeoutError, BusyError>()})
//
// Thread: any.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <mobula/detail/export.h>
#include <mobula/detail/type_name.h>

namespace mobula {

// Types of exceptions that are retried. Converts from bool: all, or none.
class RetryExceptions {
 public:
  // Retries no exception, or all.
  RetryExceptions(bool all = false) : any_(all) {}  // NOLINT: implicit
  // For the library: retries exceptions of these types.
  explicit RetryExceptions(std::vector<std::string> types)
      : any_(!types.empty()), types_(std::move(types)) {}

  // Reports whether any exception is retried.
  operator bool() const { return any_; }  // NOLINT: implicit
  // Returns the types, or nothing if all or no exceptions are retried.
  const std::vector<std::string>& types() const { return types_; }

  // Compares the types.
  friend bool operator==(const RetryExceptions&, const RetryExceptions&) = default;

 private:
  bool any_;
  std::vector<std::string> types_;
};

namespace detail {

using ExceptionTest = bool (*)(const std::exception& thrown);

// Makes the type known to executors of this program. Returns true.
MOBULA_API bool add_retried_type(std::string_view type, ExceptionTest test);
// Reports whether the exception has one of the types, or is derived from one. A type of another
// program is compared by the name of the exception's own type.
MOBULA_API bool has_type(std::exception_ptr thrown, const std::vector<std::string>& types);

template <class E>
struct RetriedType {
  static bool test(const std::exception& thrown) {
    return dynamic_cast<const E*>(&thrown) != nullptr;
  }
  static inline const bool added = add_retried_type(type_name<E>, &test);
};

}  // namespace detail

// Returns an option that retries exceptions of these types and of types derived from them.
template <class... E>
RetryExceptions retry_on() {
  static_assert(sizeof...(E) > 0 && (std::is_base_of_v<std::exception, E> && ...),
                "mobula: retry_on<E...> needs classes derived from std::exception");
  (void)(detail::RetriedType<E>::added && ...);
  return RetryExceptions(std::vector<std::string>{std::string(detail::type_name<E>)...});
}

}  // namespace mobula
