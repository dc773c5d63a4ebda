// Tasks: `task<f>.options({...}).remote(args...)` runs f in the cluster and returns a ref to its
// result. f is a free function, a static function, or a captureless lambda.
// Thread: any.
// Errors: `InvalidRequestError` at `remote` for options that break a rule.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <mobula/detail/describe.h>
#include <mobula/detail/submit.h>
#include <mobula/get.h>
#include <mobula/options.h>

namespace mobula {

namespace detail {

template <auto F, bool split>
struct TaskEntry {
  using Callee = Signature<std::remove_cv_t<decltype(F)>>;
  using Result = typename Callee::Result;
  using Parameters = typename Callee::Parameters;
  using Refs = typename CallResult<Result, split>::Refs;
  using ResultIds = detail::ResultIds<Refs, CallResult<Result, split>::count>;

  static inline Entry entry{{EntryKind::task,
                             value_name<F>,
                             &invoke<split, Result, Parameters, FunctionBody<Result, F>>,
                             static_cast<int>(Parameters::size),
                             CallResult<Result, split>::count,
                             nullptr,
                             {},
                             &call_description<Result, split, Parameters>}};
};

template <auto F, bool split, class... Args>
auto submit(const std::shared_ptr<const TaskRequest>& request, Args&&... args) {
  using This = TaskEntry<F, split>;
  using Refs = typename This::Refs;
  using Parameters = typename This::Parameters;
  constexpr bool sound = check_arguments(Parameters{}, TypeList<Args...>{}) &&
                         check_result<typename This::Result, split>();
  if constexpr (sound) {
    OutgoingArguments<Parameters, Args...> arguments(std::forward<Args>(args)...);
    const auto target = runtime_for(This::entry, request->num_returns);
    const auto passed = arguments.passed_to(target);
    typename This::ResultIds results;
    require_submitted(target->submit_task(task_of(This::entry, request, passed, results.span())),
                      passed);
    return results.adopt(target);
  } else {
    return Refs();
  }
}

template <auto F>
constexpr bool check_function() {
  using F_ = Signature<std::remove_cv_t<decltype(F)>>;
  static_assert(!std::is_member_pointer_v<decltype(F)>,
                "mobula: task<f> runs functions; methods are called on actors: "
                "actor<C>.remote(...).call<&C::method>(...)");
  static_assert(F_::known,
                "mobula: task<f> needs a function or a captureless lambda without auto parameters");
  return F_::known && !std::is_member_pointer_v<decltype(F)>;
}

template <class Result>
constexpr bool check_split() {
  static_assert(SplitResult<std::remove_cvref_t<Result>>::possible,
                "mobula: split() needs a function that returns a std::tuple or std::array");
  return SplitResult<std::remove_cvref_t<Result>>::possible;
}

}  // namespace detail

// A task with its options. Copies share the options; any number of calls may use it.
template <auto F, bool is_split = false>
class PreparedTask {
 public:
  // For the library.
  explicit PreparedTask(detail::Prepared<detail::TaskRequest> request)
      : request_(std::move(request)) {}

  // Returns the same task with `options`, which replace all earlier options.
  PreparedTask options(const TaskOptions& options) const {
    return PreparedTask(detail::prepare(options));
  }

  // Returns a task that yields one ref per element of the std::tuple or std::array that f returns.
  auto split() const {
    using Result = typename detail::TaskEntry<F, false>::Result;
    return PreparedTask<F, detail::check_split<Result>()>(request_);
  }

  // Submits the task and returns immediately with a ref to its result. `PendingLimitError` if a
  // limit on pending arguments is exceeded.
  template <class... Args>
  auto remote(Args&&... args) const {
    return detail::submit<F, is_split>(request_.value(), std::forward<Args>(args)...);
  }

 private:
  detail::Prepared<detail::TaskRequest> request_;
};

// The type of `task<f>`: submits calls of the function F.
template <auto F>
class Task {
 public:
  // Returns the task with `options`, to be followed by `remote`.
  PreparedTask<F> options(const TaskOptions& options) const {
    return PreparedTask<F>(detail::prepare(options));
  }

  // Returns a task with default options that yields one ref per element of the result.
  auto split() const { return PreparedTask<F>(detail::default_task_request()).split(); }

  // Submits the task with default options; see `PreparedTask::remote`.
  template <class... Args>
  auto remote(Args&&... args) const {
    if constexpr (detail::check_function<F>()) {
      return detail::submit<F, false>(detail::default_task_request(), std::forward<Args>(args)...);
    }
  }
};

// Entry point for tasks: `task<f>.remote(args...)`.
template <auto F>
inline constexpr Task<F> task{};

}  // namespace mobula
