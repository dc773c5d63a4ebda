// Search spaces: the domain of each parameter. Bounds follow Ray: randint and lograndint exclude
// the upper bound; the q forms include it, except for q = 1.
// Thread: any (values). Errors: InvalidRequestError for bounds that no value satisfies, from the
// call that uses the space; it names the parameter.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <mobula/detail/export.h>
#include <mobula/tune/config.h>

namespace mobula::tune {

namespace detail {
struct DomainRules;
}  // namespace detail

// The possible values of a parameter.
class MOBULA_API Domain {
 public:
  // For the library.
  explicit Domain(std::shared_ptr<const detail::DomainRules> rules) : rules_(std::move(rules)) {}

  // Returns the same domain, active only while `parameter` has the value `equals`.
  Domain when(const std::string& parameter, const Value& equals) const;

  // For the library.
  const detail::DomainRules& rules() const { return *rules_; }

 private:
  std::shared_ptr<const detail::DomainRules> rules_;  // shared by copies
};

// Numbers in [low, high).
MOBULA_API Domain uniform(double low, double high);
// Multiples of q in [low, high].
MOBULA_API Domain quniform(double low, double high, double q);
// Numbers in [low, high) whose logarithm is uniform; low > 0.
MOBULA_API Domain loguniform(double low, double high);
// Multiples of q in [low, high] whose logarithm is uniform; low > 0.
MOBULA_API Domain qloguniform(double low, double high, double q);
// Normal distribution with mean and standard deviation.
MOBULA_API Domain randn(double mean = 0, double sd = 1);
// Normal distribution, rounded to multiples of q.
MOBULA_API Domain qrandn(double mean, double sd, double q);
// Integers in [low, high).
MOBULA_API Domain randint(std::int64_t low, std::int64_t high);
// Multiples of q in [low, high]; for q = 1 without `high`.
MOBULA_API Domain qrandint(std::int64_t low, std::int64_t high, std::int64_t q = 1);
// Integers in [low, high) whose logarithm is uniform; low > 0.
MOBULA_API Domain lograndint(std::int64_t low, std::int64_t high);
// Multiples of q in [low, high] whose logarithm is uniform; low > 0.
MOBULA_API Domain qlograndint(std::int64_t low, std::int64_t high, std::int64_t q);
// One of the values, with equal probability.
MOBULA_API Domain choice(std::vector<Value> values);
// Like choice; population based training moves to a neighbor of the present value.
MOBULA_API Domain ordered(std::vector<Value> values);
// All values: each sample expands to the product of all grids.
MOBULA_API Domain grid_search(std::vector<Value> values);
// The result of a function of the other parameters. It runs in the driver.
MOBULA_API Domain sample_from(std::function<Value(const Config&)> draw);
// One fixed value.
MOBULA_API Domain constant(Value value);

// Parameters with their domains. Preserves their order, because random draws follow it.
class MOBULA_API Space {
 public:
  // A name and its domain.
  using Parameter = std::pair<std::string, Domain>;

  // Creates a space without parameters.
  Space() = default;
  // Creates a space with these parameters.
  Space(std::initializer_list<Parameter> parameters) : parameters_(parameters) {}

  // Appends a parameter.
  void add(std::string name, Domain domain) {
    parameters_.emplace_back(std::move(name), std::move(domain));
  }
  // Reports whether the space has no parameters.
  bool empty() const { return parameters_.empty(); }
  // Returns the first parameter.
  auto begin() const { return parameters_.begin(); }
  // Returns the end of the parameters.
  auto end() const { return parameters_.end(); }

 private:
  std::vector<Parameter> parameters_;
};

}  // namespace mobula::tune
