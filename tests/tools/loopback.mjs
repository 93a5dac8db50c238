// Loaded before a server that listens on every interface at a port that it is told: it listens on this machine alone, at
// a free port, and says which.
import net from "node:net";

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function () {
  return listen.call(this, 0, "127.0.0.1", () => console.log(`listening on port ${this.address().port}`));
};
