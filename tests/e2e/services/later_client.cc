// A client of a later release of examples/service: Item has a float, KV has a further method.
#include <mobula/mobula.h>
#include <mobula/service.h>

#include <iostream>
#include <optional>
#include <string>

struct Item {
  std::int32_t count = 0;
  float weight = 0;
};

class KV {
 public:
  void put(std::string key, Item item);
  std::optional<Item> get(std::string key) const;
  bool erase(std::string key);
};

MOBULA_DECLARED_ONLY(KV)

namespace {

template <class Error, class Call>
void expect(const char* what, const Call& call) {
  try {
    call();
    std::cout << what << ": no error" << std::endl;
  } catch (const Error& error) {
    std::cout << what << ": " << error.what() << std::endl;
  } catch (const std::exception& error) {
    std::cout << what << ": another error: " << error.what() << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto cluster = mobula::init(argc, argv);
  const auto kv = mobula::get_actor<KV>("kv", "services");
  expect<mobula::NotFoundError>("erase", [&] { mobula::get(kv.call<&KV::erase>("a")); });
  expect<mobula::InvalidRequestError>("put", [&] { mobula::get(kv.call<&KV::put>("a", Item{})); });
  expect<mobula::InvalidRequestError>("get", [&] { mobula::get(kv.call<&KV::get>("a")); });
}
