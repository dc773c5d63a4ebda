#include <mobula/mobula.h>

#include "client/twins.h"

namespace {

int twin() { return 10; }

namespace {
int hidden_twin(int x) { return x; }
}  // namespace

struct Twin {
  int value() const { return 1; }
};

constexpr auto lambda = []() { return 1; };

}  // namespace

static int static_twin(int x) { return x + 1; }

namespace twins {

int first_function() { return mobula::task<twin>.remote().get(); }

int first_lambda() { return mobula::task<lambda>.remote().get(); }

std::vector<mobula::detail::FunctionKey> first_keys() {
  auto& registry = mobula::detail::Registry::instance();
  return {registry.key_of(mobula::detail::TaskEntry<twin, false>::entry),
          registry.key_of(mobula::detail::TaskEntry<hidden_twin, false>::entry),
          registry.key_of(mobula::detail::TaskEntry<static_twin, false>::entry),
          registry.key_of(mobula::detail::TaskEntry<lambda, false>::entry),
          registry.key_of(mobula::detail::MethodEntry<Twin, &Twin::value, false>::entry)};
}

}  // namespace twins
