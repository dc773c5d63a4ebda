#include "protocol/session/session.h"
