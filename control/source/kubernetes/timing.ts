/** How long the source waits for what, and how much it asks for at a time. */

export interface Timing {
  /** A request to which nothing arrives for so long is given up, and its connection with it. */
  readonly inactivityMs: number
  /**
   * The same for a watch over a connection that is pinged, which shows earlier when it is dead: a little longer than the
   * minute that passes between the bookmarks of the API server, which may be all that it has to say.
   */
  readonly quietWatchMs: number
  /** So often an HTTP/2 connection is asked for a sign of life; it is given up if the one before is not answered yet. */
  readonly pingMs: number
  /** So long at most a connection may take to be made. */
  readonly connectMs: number
  /** So long at least after a first failure nothing is asked for; three times as long after each further one. */
  readonly backoffMinMs: number
  /** Before the random part, which is as long again at most. */
  readonly backoffMaxMs: number
  /** The server ends a watch after so long, or up to twice as long: at random, so that not all come back at once. */
  readonly watchTimeoutSeconds: number
  /**
   * The same over a connection that is not pinged (HTTP/1.1): twice as long is less than `inactivityMs`, so that the
   * server has said at least goodbye until then, and silence means that the connection is dead.
   */
  readonly unpingedWatchTimeoutSeconds: number
  /** Objects in a page of a list. */
  readonly pageSize: number
  /** A kind of objects that the server does not have is asked for again after so long. */
  readonly absentMs: number
  /** So long at a stretch objects are decoded, of all kinds together; then others have their turn. */
  readonly turnMs: number
}

/**
 * 800 ms to 30 s and 5 to 10 minutes are what other clients of the API server do (client-go). Three times as long each
 * time, not twice: whatever a server does, it is listed twice at most within the first ten seconds.
 */
export const defaultTiming: Timing = {
  inactivityMs: 60_000,
  quietWatchMs: 75_000,
  pingMs: 15_000,
  connectMs: 10_000,
  backoffMinMs: 800,
  backoffMaxMs: 30_000,
  watchTimeoutSeconds: 300,
  unpingedWatchTimeoutSeconds: 25,
  pageSize: 500,
  absentMs: 600_000,
  turnMs: 5,
}
