#include "sim/workload/plan.h"

namespace mobula::internal::sim {
namespace {

// Runs a plan on expectations instead of objects.
class Evaluation {
 public:
  Evaluation(const Plans& plans, const Plan& plan, const std::vector<Expected>& arguments)
      : plans_(plans), plan_(plan) {
    for (const auto& argument : arguments) {
      read(argument);
      refs_.insert(refs_.end(), argument.contained.begin(), argument.contained.end());
    }
  }

  Expected run() {
    for (const auto& step : plan_.steps) take(step);
    Expected result;
    result.number = mixed(static_cast<std::uint64_t>(plan_.id) + 1, read_);
    const bool out_of_retries =
        plan_.max_retries >= 0 && plan_.crashes > static_cast<std::uint32_t>(plan_.max_retries);
    const bool thrown =
        plan_.throws > 0 &&
        (!plan_.retry_exceptions ||
         (plan_.max_retries >= 0 && plan_.throws > static_cast<std::uint32_t>(plan_.max_retries)));
    result.must_fail = must_fail_ || out_of_retries || thrown || plan_.abandons;
    result.may_fail = may_fail_ || plan_.may_fail;
    for (const int var : plan_.returned) {
      result.contained.push_back(vars_.at(static_cast<std::size_t>(var)));
    }
    if (plan_.return_refs) {
      result.contained.insert(result.contained.end(), refs_.begin(), refs_.end());
    }
    return result;
  }

 private:
  void read(const Expected& value) {
    if (value.handle) return;
    read_ = mixed(read_, value.number);
    must_fail_ |= value.must_fail;
    may_fail_ |= value.may_fail;
  }

  std::vector<Expected> arguments_of(const Step& step) const {
    std::vector<Expected> arguments;
    for (const auto& given : step.given) arguments.push_back(evaluate_given(given, vars_, refs_));
    return arguments;
  }

  void take(const Step& step) {
    switch (step.act) {
      case Act::submit:
      case Act::call_actor:
        vars_.push_back(evaluate(plans_, step.plan, arguments_of(step)));
        vars_.back().must_fail |= step.must_fail;
        break;
      case Act::put: {
        Expected value;
        value.number = step.number;
        for (const int var : step.vars)
          value.contained.push_back(vars_.at(static_cast<std::size_t>(var)));
        vars_.push_back(std::move(value));
        break;
      }
      case Act::make_actor:
      case Act::get_or_make:
      case Act::find_actor: {
        Expected handle;
        handle.handle = true;
        vars_.push_back(handle);
        break;
      }
      case Act::get:
        if (!step.tolerant) read(vars_.at(static_cast<std::size_t>(step.var)));
        break;
      case Act::get_refs:
        for (const auto& ref : refs_) read(ref);
        break;
      case Act::call_refs:
        for (const auto& ref : refs_) {
          if (ref.handle && !step.unawaited) read(evaluate(plans_, step.plan, {}));
          if (!ref.handle || !step.unawaited) continue;
          vars_.push_back(ref);
          vars_.push_back(evaluate(plans_, step.plan, {}));
        }
        break;
      default: break;
    }
  }

  const Plans& plans_;
  const Plan& plan_;
  std::vector<Expected> refs_;  // refs inside the arguments
  std::vector<Expected> vars_;
  std::uint64_t read_ = 0;
  bool must_fail_ = false;
  bool may_fail_ = false;
};

}  // namespace

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = a * 0x9e3779b97f4a7c15ULL + b + 1;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

Expected evaluate(const Plans& plans, int id, const std::vector<Expected>& arguments) {
  return Evaluation(plans, plans.at(static_cast<std::size_t>(id)), arguments).run();
}

Expected evaluate_given(const Given& given, const std::vector<Expected>& vars,
                        const std::vector<Expected>& refs) {
  if (given.by_ref) return vars.at(static_cast<std::size_t>(given.var));
  Expected value;
  value.number = given.number;
  for (const int var : given.contained)
    value.contained.push_back(vars.at(static_cast<std::size_t>(var)));
  if (given.pass_refs) value.contained.insert(value.contained.end(), refs.begin(), refs.end());
  return value;
}

}  // namespace mobula::internal::sim
