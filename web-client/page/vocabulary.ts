/** What a drive can be asked for, as phrases to press. Pure. */
export type Aspect = 'place' | 'time' | 'weather';

/** Phrases by what they say the same of; the first of each row is what the model's plan calls it. */
const PHRASES: Readonly<Record<Aspect, readonly (readonly string[])[]>> = {
  place: [
    ['forest', 'pine forest', 'woods'],
    ['desert', 'cactus desert', 'dunes'],
    ['city', 'downtown', 'urban street'],
    ['coast', 'beach', 'seaside road'],
    ['snowy mountains', 'winter mountains', 'alps'],
  ],
  time: [
    ['dawn', 'sunrise', 'early morning'],
    ['day', 'noon', 'daylight'],
    ['dusk', 'sunset', 'evening'],
    ['night', 'midnight', 'dark night'],
  ],
  weather: [
    ['clear sky', 'sunny', 'clear'],
    ['rain', 'raining', 'storm'],
    ['fog', 'foggy', 'mist'],
    ['snowfall', 'snowing', 'blizzard'],
  ],
};

export const ASPECTS: readonly Aspect[] = ['place', 'time', 'weather'];

export type Selection = Readonly<Record<Aspect, string | null>>;
export const NOTHING_SELECTED: Selection = { place: null, time: null, weather: null };

export function wordsOf(text: string): string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}'-]+/gu) ?? [];
}

/** The phrases that a model with this vocabulary understands, by aspect; null where it knows none of them. */
export function suggestionsFrom(vocabulary: readonly string[]): Readonly<Record<Aspect, readonly string[]>> | null {
  const known = new Set(vocabulary.map((word) => word.toLowerCase()));
  const understood = (phrase: string): boolean => known.has(phrase) || phrase.split(' ').every((word) => known.has(word));
  const pick = (aspect: Aspect): string[] => PHRASES[aspect].flatMap((row) => row.find(understood) ?? []);
  const suggestions = { place: pick('place'), time: pick('time'), weather: pick('weather') };
  return ASPECTS.some((aspect) => suggestions[aspect].length > 0) ? suggestions : null;
}

/** What a prompt or a plan says of each aspect; what it doesn't mention stays as in `before`. */
export function selectionFrom(text: string, before: Selection): Selection {
  const said = ` ${wordsOf(text).join(' ')} `;
  const find = (aspect: Aspect): string | null => {
    // The longest phrase wins: "snowy mountains" and not "snow".
    const hits = PHRASES[aspect].flatMap((row) => row.filter((phrase) => said.includes(` ${phrase} `)).map((phrase) => ({ phrase, name: row[0]! })));
    hits.sort((a, b) => b.phrase.length - a.phrase.length);
    return hits[0]?.name ?? before[aspect];
  };
  return { place: find('place'), time: find('time'), weather: find('weather') };
}

/** A prompt in the model's own words: "snowy mountains at night with rain". */
export function promptFrom({ place, time, weather }: Selection): string {
  return [place, time && (place ? `at ${time}` : time), weather && (place || time ? `with ${weather}` : weather)].filter(Boolean).join(' ');
}

/** Words that the model has never seen; they are ignored, or refused where nothing else is said. */
export function unknownWords(prompt: string, vocabulary: readonly string[]): string[] {
  const known = new Set(vocabulary.flatMap((word) => wordsOf(word)));
  return [...new Set(wordsOf(prompt).filter((word) => !known.has(word)))];
}
