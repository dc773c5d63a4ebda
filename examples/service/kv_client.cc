// Another program that calls the service: kv_client put KEY COUNT WEIGHT, or kv_client get KEY.
#include <mobula/mobula.h>
#include <mobula/service.h>

#include <iostream>

#include "kv.h"

// This program has no definitions of the methods of KV.
MOBULA_DECLARED_ONLY(KV)

int main(int argc, char** argv) {
  const auto cluster = mobula::init(argc, argv);
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    const auto kv = mobula::get_actor<KV>("kv", "services");
    if (words.size() == 4 && words[0] == "put") {
      mobula::get(kv.call<&KV::put>(words[1], Item{std::stoi(words[2]), std::stod(words[3])}));
      std::cout << "stored " << words[1] << "\n";
    } else if (words.size() == 2 && words[0] == "get") {
      const auto item = mobula::get(kv.call<&KV::get>(words[1]));
      if (!item) std::cout << words[1] << " is not stored\n";
      if (item) std::cout << words[1] << ": " << item->count << " of " << item->weight << "\n";
    } else {
      std::cerr << "usage: kv_client put KEY COUNT WEIGHT | get KEY\n";
      return 2;
    }
  } catch (const std::exception& error) {
    std::cerr << "kv_client: " << error.what() << "\n";
    return 1;
  }
}
