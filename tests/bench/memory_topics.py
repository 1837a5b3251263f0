"""What the dialogues of the benchmark are about: each fact is told in some words and asked for in others.

The weights of recall were chosen with dialogues of `TUNED`, and how much a named speaker counts also with other seeds
of `HELD_OUT`, which has other people, topics and words.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topic:
    """What is said of a topic: the line before, ways to tell it, ways to ask for it, and what it can be."""

    raised: Sequence[str]
    told: Sequence[str]
    asked: Sequence[str]
    values: Sequence[str]
    small_talk: Sequence[str]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Dialogues of one kind: who speaks of what, and the share of facts that the line before them asks for."""

    name: str
    people: Sequence[str]
    topics: Sequence[Topic]
    raised_share: float


PRIVATE_LIFE = (
    Topic(
        ("Any news about the new dog?", "How is the little one settling in?"),
        ("We finally settled on {value}, it suits the puppy.", "Everyone calls the puppy {value} by now."),
        ("What did {who} name the dog?", "What is {who}'s pet called?", "What did {who} settle on for the puppy?"),
        ("Biscuit", "Rufus", "Momo", "Pepper", "Juno", "Waffle"),
        ("The puppy chewed a shoe again.", "A dog needs a long walk in this weather.", "My cat would hate a puppy."),
    ),
    Topic(
        ("Where did you go in the end for the holidays?", "So, did you book the trip?"),
        ("It was {value}, ten days with rain on nine of them.", "We took the night train down to {value}."),
        (
            "Where did {who} travel on vacation?",
            "Which city did {who} visit?",
            "Where did {who} take the night train for ten days?",
        ),
        ("Lisbon", "Tromsø", "Kyoto", "Palermo", "Tallinn", "Porto"),
        ("I need a break, any beach will do.", "Flights are so expensive this year.", "We stayed at home this summer."),
    ),
    Topic(
        ("Can we order for everybody? Anything you can't have?", "I will cook on Friday, tell me about restrictions."),
        ("Please leave out {value}, I swell up like a balloon.", "No {value} for me, the doctor was very clear."),
        (
            "What is {who} allergic to?",
            "Which food must {who} avoid?",
            "Why does {who} swell up, what should be left out of the food?",
        ),
        ("peanuts", "shellfish", "sesame", "walnuts", "kiwi", "celery"),
        ("I could eat pizza every day.", "The new canteen is not bad at all.", "Who ate my yoghurt?"),
    ),
    Topic(
        ("Did you hear back about the position?", "How did the interview go?"),
        ("They took me, I start as a {value} next month.", "Signed the contract: {value}, full time."),
        ("What is {who}'s job now?", "What does {who} work as?", "What contract did {who} sign, starting next month?"),
        ("nurse", "welder", "translator", "surveyor", "baker", "midwife"),
        ("Mondays should be shorter.", "My boss sent an email at midnight.", "Interviews make me nervous."),
    ),
    Topic(
        ("Your birthday must be soon?", "We should plan a cake, when is it?"),
        ("It's on the {value}, but no surprises please.", "Mark the {value}, I turn thirty."),
        (
            "When was {who} born, which day?",
            "On which date does {who} celebrate?",
            "Which day should we mark, when {who} turns thirty?",
        ),
        ("third of May", "ninth of June", "first of April", "last of August", "tenth of October", "second of March"),
        ("I forgot to buy candles.", "Thirty is only a number.", "The cake last time was too sweet."),
    ),
    Topic(
        ("What are you listening to these days?", "You practise a lot lately."),
        ("I am learning the {value}, my neighbours suffer.", "Got a second-hand {value} from an uncle."),
        (
            "Which instrument does {who} play?",
            "What music does {who} make?",
            "What is {who} learning that makes the neighbours suffer?",
        ),
        ("cello", "oboe", "banjo", "accordion", "trumpet", "harp"),
        ("That concert was far too loud.", "I can't read notes at all.", "My headphones broke."),
    ),
    Topic(
        ("How do you get to the office now?", "Still no car?"),
        ("I bought a {value} bicycle, half an hour each way.", "The {value} bike was a bargain, I cycle in."),
        ("What colour is {who}'s bike?", "How does {who} commute?", "Which bicycle did {who} buy as a bargain?"),
        ("turquoise", "crimson", "yellow", "silver", "violet", "orange"),
        ("The bus was late again.", "Parking costs a fortune downtown.", "It snowed on my way in."),
    ),
    Topic(
        ("And the flat, did you move already?", "How is the new place?"),
        ("We live in {value} now, third floor without a lift.", "The boxes are unpacked, {value} is very quiet."),
        (
            "Where is {who}'s home?",
            "In which district did {who} settle?",
            "Where does {who} live now, on the third floor?",
        ),
        ("Altona", "Belém", "Camden", "Kreuzberg", "Harlem", "Trastevere"),
        ("Moving is the worst.", "My landlord raised the rent.", "I painted the kitchen on Sunday."),
    ),
    Topic(
        ("Which book are you on?", "Anything good to read?"),
        ("Halfway through {value}, I can't put it down.", "Finished {value} at three in the morning."),
        (
            "What novel did {who} read?",
            "Which author's story kept {who} awake?",
            "What was {who} halfway through and could not put down?",
        ),
        ("Middlemarch", "Solaris", "Beloved", "Dracula", "Persuasion", "Ulysses"),
        ("I only read on the train.", "The library closes at six.", "I fall asleep after two pages."),
    ),
    Topic(
        ("When is the deadline for the grant?", "Do we have a date for the submission?"),
        ("It has to be in by the {value}, no extension.", "They moved it: {value} at noon, sharp."),
        (
            "By when must {who} hand in the application?",
            "What is the due date that {who} mentioned?",
            "Which deadline did they move, says {who}?",
        ),
        ("14th", "22nd", "27th", "18th", "16th", "29th"),
        ("I hate forms with boxes.", "The printer is out of toner.", "Somebody must check the budget table."),
    ),
    Topic(
        ("How is the knee?", "You were limping yesterday."),
        ("The surgeon said {value} weeks without sports.", "It's torn, {value} weeks of rest."),
        (
            "How long is {who} injured?",
            "For what time can't {who} train?",
            "How many weeks of rest did the surgeon give {who}?",
        ),
        ("six", "eight", "ten", "twelve", "nine", "seven"),
        ("I should stretch more.", "The gym was full at seven.", "My back hurts from this chair."),
    ),
    Topic(
        ("Who helps with the garden?", "What will you plant this year?"),
        ("Mostly {value}, the soil is good for them.", "I put in forty {value} along the fence."),
        (
            "What does {who} grow?",
            "Which vegetables or flowers has {who} outside?",
            "What did {who} put in along the fence?",
        ),
        ("tulips", "leeks", "dahlias", "pumpkins", "radishes", "peonies"),
        ("The snails ate everything.", "It has not rained for weeks.", "I killed a cactus once."),
    ),
)
WORK = (
    Topic(
        ("Who looks after the customer in the north?", "Is the big account covered?"),
        ("{value} has taken over from me, I only sit in on the calls.", "From today on {value} is ours to please."),
        (
            "Which company is {who} responsible for?",
            "Who is {who}'s client?",
            "Which account has {who} taken over and must please?",
        ),
        ("Halvorsen", "Brightwater", "Quantico", "Mirabelle", "Oakridge", "Zentek"),
        ("Customers always call at lunch.", "Sales promised something again.", "The account team wants a dinner."),
    ),
    Topic(
        ("What broke last night?", "Why did the pager go off?"),
        ("The {value} ran full and took everything down with it.", "It all went dark because of the {value}."),
        ("What caused {who}'s outage?", "Which component failed, says {who}?", "What went dark or ran full for {who}?"),
        ("disk", "queue", "cache", "load balancer", "certificate store", "message broker"),
        ("I slept through the alarm.", "Nights on call make me old.", "Another incident report to write."),
    ),
    Topic(
        ("Which language for the rewrite?", "What are we going to build it in?"),
        ("I have made up my mind, {value}, and I will defend it.", "My vote goes to {value}, for the tooling."),
        (
            "What does {who} want to program in?",
            "Which technology did {who} pick?",
            "What does {who} vote for and defend?",
        ),
        ("Kotlin", "Elixir", "Rust", "Haskell", "Swift", "Erlang"),
        ("Rewrites never end.", "The compiler takes forever here.", "Nobody reads the style guide."),
    ),
    Topic(
        ("When is the review with the board?", "Any date for the big presentation?"),
        ("They want me on stage on {value}, slides and all.", "I am up on {value}, right after lunch."),
        (
            "On which weekday does {who} present?",
            "When is {who}'s talk?",
            "When do they want {who} on stage after lunch?",
        ),
        ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
        ("My slides have too much text.", "The beamer never finds my laptop.", "The board likes short meetings."),
    ),
    Topic(
        ("How do you take it?", "I'm getting drinks, what would you like?"),
        ("{value} for me, anything else keeps me awake.", "Just {value}, thanks, I gave up the rest."),
        (
            "What does {who} drink?",
            "Which beverage should I bring to {who}?",
            "What keeps {who} from lying awake, just this?",
        ),
        ("peppermint tea", "decaf", "oat milk", "hot chocolate", "ginger ale", "lemonade"),
        ("The machine is out of beans.", "Someone took my mug.", "The new cups are too small."),
    ),
    Topic(
        ("Where will the offsite be?", "Did they choose a venue?"),
        ("I reserved rooms in {value}, with a view of the water.", "We are all going to {value}, the train is paid."),
        (
            "In which town is {who}'s team retreat?",
            "Where did {who} book the hotel?",
            "Where did {who} reserve rooms with a view?",
        ),
        ("Bergen", "Annecy", "Lugano", "Galway", "Sopot", "Piran"),
        ("Team events should be on workdays.", "I still have no roommate.", "Last year it rained in."),
    ),
    Topic(
        ("How much did they grant us?", "What about the money for the lab?"),
        ("{value} thousand, and not a cent more.", "We got {value} thousand out of them, believe it or not."),
        (
            "What is the size of {who}'s budget?",
            "How large is the funding {who} received?",
            "How many thousand did {who} get out of them?",
        ),
        ("forty", "seventy", "ninety", "fifteen", "sixty", "thirty"),
        ("Finance lost my receipts.", "We could save on the paper.", "Money makes meetings longer."),
    ),
    Topic(
        ("Who trains you?", "Who showed you around?"),
        ("Old {value} sits with me every morning and explains things.", "I follow {value} around like a duckling."),
        ("Who is {who}'s mentor?", "By whom is {who} being coached?", "Whom does {who} follow around every morning?"),
        ("Gustav", "Imelda", "Rashid", "Beatrix", "Tomasz", "Philippa"),
        ("First weeks are exhausting.", "I keep forgetting names.", "The handbook is from another century."),
    ),
    Topic(
        ("How are the little ones?", "Everybody well at home?"),
        ("My eldest has {value} now, nobody sleeps.", "The doctor calls it {value}, so I work from the sofa."),
        (
            "Which illness does {who}'s child have?",
            "Why is {who}'s kid sick?",
            "What does the doctor call it, so that {who} works from the sofa?",
        ),
        ("chickenpox", "measles", "bronchitis", "mumps", "tonsillitis", "scarlet fever"),
        ("School starts far too early.", "I brought cough drops.", "The kindergarten is closed again."),
    ),
    Topic(
        ("What's in the garage?", "Did you sell the old thing?"),
        ("I drive a {value} these days, third hand and rusty.", "Bought my cousin's {value}, it even starts."),
        ("What car does {who} own?", "Which vehicle is {who}'s?", "What does {who} drive, third hand from a cousin?"),
        ("Volvo", "Fiat", "Subaru", "Skoda", "Peugeot", "Mazda"),
        ("Petrol is dear these days.", "Winter tyres, already?", "Somebody parked in my spot."),
    ),
    Topic(
        ("What are you training for?", "Up so early again?"),
        ("Every dawn it is {value} for me, rain or shine.", "I joined a club for {value}, I ache everywhere."),
        (
            "Which sport does {who} do?",
            "What is {who}'s workout?",
            "What club did {who} join that makes everything ache?",
        ),
        ("rowing", "fencing", "judo", "climbing", "archery", "handball"),
        ("I own shoes for that, unused.", "The changing rooms are freezing.", "The stairs are enough for me."),
    ),
    Topic(
        ("Who will take the papers to the notary?", "Is the sale through?"),
        ("The house went to {value} for a good sum.", "{value} got the keys yesterday, I am relieved."),
        (
            "Who bought {who}'s property?",
            "To whom did {who} sell the building?",
            "Who got the keys of the house from {who}?",
        ),
        ("a dentist", "a violinist", "the parish", "a young couple", "a brewery", "the council"),
        ("Lawyers charge for every comma.", "I can't find the stamp.", "Attics are full of surprises."),
    ),
)
TUNED = Corpus("private life", ("Ann", "Bob", "Clara", "Dmitri", "Elif", "Farid"), PRIVATE_LIFE, raised_share=1.0)
HELD_OUT = Corpus("work", ("Grace", "Hugo", "Ines", "Jonas", "Kavya", "Liam"), WORK, raised_share=0.5)
