"""A few sentences in languages of many scripts, written for the report, to see how a tokenizer cuts each of them."""

SENTENCES: tuple[tuple[str, str], ...] = (
    ("English", "The river rose overnight, and by morning the old bridge wasn't there anymore."),
    ("German", "Über Nacht stieg der Fluss, und am Morgen war die alte Brückenkonstruktion verschwunden."),
    ("Spanish", "El río creció durante la noche y, por la mañana, el viejo puente ya no estaba."),
    ("Turkish", "Nehir gece boyunca yükseldi; sabah olduğunda eski köprü artık yerinde değildi."),
    ("Vietnamese", "Nước sông dâng lên suốt đêm, và đến sáng thì cây cầu cũ không còn nữa."),
    ("Russian", "За ночь река поднялась, и к утру старого моста уже не было."),
    ("Greek", "Το ποτάμι φούσκωσε τη νύχτα και το πρωί η παλιά γέφυρα δεν υπήρχε πια."),
    ("Arabic", "ارتفع النهر في الليل، وفي الصباح لم يعد الجسر القديم موجودًا."),
    ("Hebrew", "הנהר עלה במשך הלילה, ובבוקר הגשר הישן כבר לא היה שם."),
    ("Hindi", "रात में नदी चढ़ गई और सुबह तक पुराना पुल वहाँ नहीं था।"),
    ("Chinese", "夜里河水上涨，到了早晨，那座老桥已经不见了。"),
    ("Japanese", "夜のうちに川の水かさが増し、朝には古い橋がなくなっていた。"),
    ("Korean", "밤새 강물이 불어나더니 아침에는 낡은 다리가 사라지고 없었다."),
    ("Python", "def level(day: int) -> float:\n    return 2.75 + 0.125 * day  # metres, 3 sensors\n"),
    ("Emoji and numbers", "🌧️ 1234567 mm? No: 38.5 mm, 12:45 👩‍🚒🌉 → ½ km"),
)
