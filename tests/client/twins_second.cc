#include <mobula/mobula.h>

#include "client/twins.h"

namespace {

int twin() { return 20; }

namespace {
int hidden_twin(int x) { return x; }
}  // namespace

struct Twin {
  int value() const { return 2; }
};

constexpr auto lambda = []() { return 2; };

}  // namespace

static int static_twin(int x) { return x + 1; }

namespace twins {

int second_function() { return mobula::task<twin>.remote().get(); }

int second_lambda() { return mobula::task<lambda>.remote().get(); }

std::vector<mobula::detail::FunctionKey> second_keys() {
  auto& registry = mobula::detail::Registry::instance();
  return {registry.key_of(mobula::detail::TaskEntry<twin, false>::entry),
          registry.key_of(mobula::detail::TaskEntry<hidden_twin, false>::entry),
          registry.key_of(mobula::detail::TaskEntry<static_twin, false>::entry),
          registry.key_of(mobula::detail::TaskEntry<lambda, false>::entry),
          registry.key_of(mobula::detail::MethodEntry<Twin, &Twin::value, false>::entry)};
}

}  // namespace twins
