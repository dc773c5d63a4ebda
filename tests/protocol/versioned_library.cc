extern "C" int mobula_versioned_library() { return 1; }
