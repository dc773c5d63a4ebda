// Functions and an actor that untyped callers of other programs call with neutral values. It serves
// until its input ends: neutral_service JOB_NAME
#include <fcntl.h>
#include <mobula/mobula.h>
#include <mobula/neutral.h>
#include <mobula/service.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

struct Inner {
  std::int32_t count = 0;
  std::string name;
};
struct Outer {
  Inner inner;
  std::vector<Inner> more;
  std::optional<double> weight;
  std::map<std::string, std::vector<std::byte>> parts;
};

namespace first {
int twin(int x) { return x + 1; }
}  // namespace first
namespace second {
int twin(int x) { return x + 2; }
}  // namespace second

double sum(const mobula::Tensor& tensor) { return static_cast<double>(tensor.shape().size()); }

// Refs of this program and of its callers.
std::int64_t slow_double(std::int64_t x) { return 2 * x; }
mobula::ObjectRef<std::int64_t> start_double(std::int64_t x) {
  return mobula::task<slow_double>.options({.num_cpus = 0}).remote(x);
}
using IntRef = mobula::ObjectRef<std::int64_t>;
IntRef pass_on(IntRef ref) { return ref; }
std::int64_t read_ref(IntRef ref) { return ref.empty() ? -1 : mobula::get(ref); }
struct Shared {
  std::string name;
  std::vector<IntRef> refs;
  std::map<std::string, std::optional<IntRef>> more;
};
Shared share(Shared given) {
  given.refs.push_back(mobula::put(std::int64_t{100}));
  return given;
}
std::int64_t sum_of(Shared given) {
  std::int64_t sum = 0;
  for (const IntRef& each : given.refs) sum += mobula::get(each);
  for (const auto& [name, each] : given.more) sum += each ? mobula::get(*each) : 0;
  return sum;
}
// Reads a value in the format of its producer.
std::int64_t read_neutral(mobula::ObjectRef<std::int64_t> ref) {
  const mobula::AnyRef any(ref);
  const auto fetched = mobula::dynamic::get({&any, 1});
  const auto value =
      mobula::dynamic::neutral_value(std::get<mobula::dynamic::StoredPayload>(fetched[0]));
  return std::get<std::int64_t>(value.content());
}

// Several results.
std::tuple<std::int64_t, std::string, IntRef> three(std::int64_t x) {
  return {x, "three", mobula::put(x + 1)};
}
std::array<std::int64_t, 2> both(std::int64_t x) { return {x, -x}; }
std::tuple<int, double, std::string> broken_third() { return {1, 0.5, "\xff"}; }
mobula::Deferred<std::tuple<std::int64_t, std::string>> later_both(std::int64_t x) {
  mobula::Promise<std::tuple<std::int64_t, std::string>> promise;
  auto answer = promise.get_deferred();
  promise.set_value({x, "later"});
  return answer;
}

// Tensors of this program and of its callers.
using mobula::Tensor;
Tensor same_tensor(Tensor x) { return x; }
Tensor twice(const Tensor& x) {
  Tensor doubled = x.clone();
  for (float& each : doubled.mutable_view<float>()) each *= 2;
  return doubled;
}
struct Model {
  std::string name;
  std::vector<Tensor> layers;
  std::map<std::string, Tensor> state;
  std::optional<Tensor> mask;
};
Model same_model(Model model) { return model; }
std::variant<std::string, Tensor> same_either(std::variant<std::string, Tensor> x) { return x; }
std::tuple<Tensor, std::int64_t, Tensor> parts_of(const Tensor& x) {
  return {twice(x), x.size(), x};
}
mobula::Deferred<Tensor> later_tensor(const Tensor& x) {
  mobula::Promise<Tensor> promise;
  auto answer = promise.get_deferred();
  promise.set_value(twice(x));
  return answer;
}
mobula::ObjectRef<Tensor> put_tensor(const Tensor& x) { return mobula::put(x); }
Tensor read_tensor(mobula::ObjectRef<Tensor> ref) { return mobula::get(ref); }
// Parameters are read in place: they cannot be written.
void write_parameter(Tensor x) { x.mutable_view<float>()[0] = 1; }

// Handles of this program and of its callers.
class Store;
using StoreHandle = mobula::ActorHandle<Store>;
struct Owner {
  std::string name;
  std::vector<StoreHandle> stores;
  std::optional<StoreHandle> best;
};
StoreHandle same_store(StoreHandle store) { return store; }
Owner same_owner(Owner owner) { return owner; }
StoreHandle make_store(std::string key);
std::int64_t count_in(StoreHandle store, std::string key);

// Items of streams. A file that does not exist yet makes the process end before item `death`.
mobula::generator<std::int64_t> count_to(std::int64_t end) {
  for (std::int64_t i = 0; i < end; ++i) co_yield i;
}
struct Batch {
  std::string name;
  mobula::Tensor elements;
  IntRef ref;
  std::vector<std::byte> bytes;
};
mobula::generator<Batch> batches(std::int64_t count, std::int64_t size) {
  for (std::int64_t i = 0; i < count; ++i) {
    co_yield Batch{"batch " + std::to_string(i), mobula::Tensor::from({static_cast<float>(i)}),
                   mobula::put(i), std::vector<std::byte>(static_cast<std::size_t>(size))};
  }
}
mobula::generator<std::int64_t> dies_once(std::int64_t end, std::int64_t death, std::string file) {
  for (std::int64_t i = 0; i < end; ++i) {
    if (i == death) {
      const int made = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
      if (made >= 0) ::raise(SIGKILL);
    }
    co_yield i;
  }
}
mobula::generator<std::string> broken_items() {
  co_yield "first";
  co_yield "\xff";
}
mobula::generator<std::int64_t> fails_after(std::int64_t end) {
  for (std::int64_t i = 0; i < end; ++i) co_yield i;
  throw std::runtime_error("no further item");
}

// Types that do not cross.
struct Reader {
  int number = 0;
  std::vector<mobula::ObjectRefStream<int>> streams;
};
int takes_reader(Reader reader) { return reader.number; }
std::tuple<int, mobula::ObjectRefStream<int>> gives_stream() { return {}; }
mobula::generator<mobula::ObjectRefStream<int>> gives_streams() { co_return; }
std::string broken_text() { return "\xff"; }
std::tuple<int, std::string> broken_member() { return {1, "\xff"}; }
int fail(std::string why) { throw std::runtime_error(why); }
int die() { return ::raise(SIGKILL); }
std::int64_t pid() { return ::getpid(); }
// Runs until the call is cancelled.
int hold() {
  while (!mobula::current().cancelled()) ::poll(nullptr, 0, 5);
  return 0;
}
void nothing() {}
// Calls a function of this program, although its job is another one.
int outside(int x) {
  return mobula::get(mobula::task<first::twin>.options({.num_cpus = 0}).remote(x));
}

using Bytes = std::vector<std::byte>;
bool same_bool(bool x) { return x; }
std::int64_t same_int(std::int64_t x) { return x; }
std::uint64_t same_unsigned(std::uint64_t x) { return x; }
std::int8_t same_small(std::int8_t x) { return x; }
double same_double(double x) { return x; }
float same_float(float x) { return x; }
std::string same_text(std::string x) { return x; }
Bytes same_bytes(Bytes x) { return x; }
std::vector<std::int64_t> same_list(std::vector<std::int64_t> x) { return x; }
std::map<std::string, double> same_map(std::map<std::string, double> x) { return x; }
std::map<int, std::string> same_pairs(std::map<int, std::string> x) { return x; }
std::optional<std::string> same_optional(std::optional<std::string> x) { return x; }
std::variant<std::int64_t, std::string> same_variant(std::variant<std::int64_t, std::string> x) {
  return x;
}
Outer same_struct(Outer x) { return x; }

const mobula::Functions<
    &first::twin, &second::twin, &sum, &broken_text, &broken_member, &fail, &die, &pid, &hold,
    &nothing, &outside, &same_bool, &same_int, &slow_double, &start_double, &pass_on, &read_ref,
    &share, &sum_of, &read_neutral, &three, &both, &broken_third, &later_both, &same_store,
    &same_owner, &make_store, &count_in, &count_to, &batches, &dies_once, &broken_items,
    &fails_after, &takes_reader, &gives_stream, &gives_streams, &same_tensor, &twice, &same_model,
    &same_either, &parts_of, &later_tensor, &put_tensor, &read_tensor, &write_parameter,
    &same_unsigned, &same_small, &same_double, &same_float, &same_text, &same_bytes, &same_list,
    &same_map, &same_pairs, &same_optional, &same_variant, &same_struct>
    functions;

class Store {
 public:
  void put(std::string key, Inner item) { items_[std::move(key)] = std::move(item); }
  std::optional<Inner> get(std::string key) const {
    const auto found = items_.find(key);
    return found == items_.end() ? std::nullopt : std::optional(found->second);
  }
  mobula::Deferred<std::string> later(std::string text) {
    mobula::Promise<std::string> promise;
    auto answer = promise.get_deferred();
    promise.set_value(std::move(text));
    return answer;
  }
  int die() { return ::raise(SIGKILL); }
  void keep(mobula::ObjectRef<std::int64_t> ref) { kept_ = ref; }
  mobula::ObjectRef<std::int64_t> kept() const { return kept_; }
  std::int64_t read_kept() const { return mobula::get(kept_); }
  std::tuple<std::int64_t, std::string> both() const { return {7, "seven"}; }
  mobula::generator<Inner> items(std::int64_t end) const {
    for (std::int32_t i = 0; i < end; ++i) co_yield Inner{i, "item"};
  }
  mobula::generator<std::int64_t> dies_once(std::int64_t end, std::int64_t death,
                                            std::string file) const {
    return ::dies_once(end, death, std::move(file));
  }
  void keep_tensor(mobula::Tensor tensor) { tensor_ = std::move(tensor); }
  mobula::Tensor kept_tensor() const { return tensor_; }

 private:
  mobula::Tensor tensor_;
  std::map<std::string, Inner> items_;
  mobula::ObjectRef<std::int64_t> kept_;
};

const mobula::Service<Store, &Store::put, &Store::get, &Store::later, &Store::die, &Store::keep,
                      &Store::kept, &Store::read_kept, &Store::both, &Store::keep_tensor,
                      &Store::kept_tensor, &Store::items, &Store::dies_once>
    service;

StoreHandle make_store(std::string key) {
  const auto store = mobula::actor<Store>.options({.num_cpus = 0}).remote();
  mobula::get(store.call<&Store::put>(std::move(key), Inner{7, "made"}));
  return store;
}
std::int64_t count_in(StoreHandle store, std::string key) {
  return store.empty() ? -1 : mobula::get(store.call<&Store::get>(std::move(key))).value().count;
}

int main(int argc, char** argv) {
  const auto cluster =
      mobula::init(argc, argv, {.job_name = argc > 1 ? argv[1] : "neutral_service"});
  const auto store = mobula::actor<Store>
                         .options({.name = "store",
                                   .name_space = "neutral",
                                   .get_if_exists = true,
                                   .num_cpus = 0,
                                   .max_restarts = 5})
                         .remote();
  mobula::get(store.call<&Store::get>("ready"));
  std::cout << "serving" << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
  }
}
