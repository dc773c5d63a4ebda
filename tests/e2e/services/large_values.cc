// An actor of one job whose calls from another job have values in the object stores:
// large_values serve NAME RESOURCE, and large_values call NAME. With "once" in place of "serve",
// the actor ends with its program, after a line of input. With "late" in place of "call", results
// are read after a line of input.
#include <mobula/mobula.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

namespace {

using mobula::ObjectRef;
using std::chrono::seconds;

struct Texts {
  std::size_t size(const std::string& text) const { return text.size(); }
  std::size_t size_of_refs(const std::vector<ObjectRef<std::string>>& refs) const {
    std::size_t sum = 0;
    for (const auto& ref : refs) sum += mobula::get(ref, seconds(30)).size();
    return sum;
  }
  std::string make(std::size_t size) const { return std::string(size, 'm'); }
  ObjectRef<std::string> put(std::size_t size) const { return mobula::put(make(size)); }
};

void await_line() {
  std::string line;
  std::getline(std::cin, line);
}

int serve(const std::string& name, const std::string& resource, bool once) {
  const auto texts = mobula::actor<Texts>
                         .options({.name = name,
                                   .name_space = "texts",
                                   .lifetime = once ? mobula::Lifetime::counted
                                                    : mobula::Lifetime::detached,
                                   .num_cpus = 0,
                                   .resources = {{resource, 0.1}}})
                         .remote();
  std::cout << mobula::get(texts.call<&Texts::size>(std::string("serves"))) << std::endl;
  if (once) await_line();
  return 0;
}

int read_late(const std::string& name) {
  const auto texts = mobula::get_actor<Texts>(name, "texts");
  const std::vector<ObjectRef<std::string>> made{texts.call<&Texts::make>(200 << 10),
                                                 texts.call<&Texts::make>(4 << 20)};
  (void)mobula::wait(made, {.num_returns = 2, .fetch_local = false});
  std::cout << "made" << std::endl;
  await_line();
  for (const auto& each : made) {
    try {
      std::cout << mobula::get(each, seconds(30)).size() << std::endl;
    } catch (const std::exception& error) {
      std::cout << error.what() << std::endl;
    }
  }
  return 0;
}

int call(const std::string& name) {
  const auto texts = mobula::get_actor<Texts>(name, "texts");
  int failed = 0;
  const auto expect = [&](const char* what, std::size_t size,
                          const std::function<std::size_t()>& measured) {
    std::string found;
    try {
      found = std::to_string(measured());
    } catch (const std::exception& error) {
      found = error.what();
    }
    if (found == std::to_string(size)) return;
    std::cout << what << " of " << size << " bytes: " << found << std::endl;
    ++failed;
  };
  for (const std::size_t size : {std::size_t{100}, std::size_t{200} << 10, std::size_t{4} << 20}) {
    const std::string text(size, 't');
    expect("argument", size,
           [&] { return mobula::get(texts.call<&Texts::size>(text), seconds(30)); });
    const auto ref = mobula::put(text);
    expect("ref", size, [&] { return mobula::get(texts.call<&Texts::size>(ref), seconds(30)); });
    expect("ref in a value", size, [&] {
      return mobula::get(texts.call<&Texts::size_of_refs>(std::vector{ref}), seconds(30));
    });
    const auto made = texts.call<&Texts::make>(size);
    expect("result", size, [&] { return mobula::get(made, seconds(30)).size(); });
    expect("result as an argument", size,
           [&] { return mobula::get(texts.call<&Texts::size>(made), seconds(30)); });
    expect("ref in a result", size, [&] {
      const auto put = mobula::get(texts.call<&Texts::put>(size), seconds(30));
      return mobula::get(put, seconds(30)).size();
    });
  }
  if (failed == 0) std::cout << "all equal" << std::endl;
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const auto cluster = mobula::init(argc, argv);
  const std::string command = argv[1];
  if (command == "call") return call(argv[2]);
  if (command == "late") return read_late(argv[2]);
  return serve(argv[2], argv[3], command == "once");
}
